"""Two processes in step: DistributedDataParallel over gloo."""

import torch
from common import Clock, Slow, loss_of, network
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
parallel = torch.nn.parallel.DistributedDataParallel(network)
optimizer = torch.optim.SGD(parallel.parameters(), lr=1e-4)
data = Slow(200, 0.005)
loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data), num_workers=1)
clock = Clock()
for epoch in range(2):
    loader.sampler.set_epoch(epoch)
    clock.begin()
    for batch in loader:
        clock.got()
        optimizer.zero_grad()
        loss_of(batch, parallel).backward()
        optimizer.step()
        clock.stepped()
    clock.end()
clock.report(rank=rank)
torch.distributed.destroy_process_group()
