"""DistributedDataParallel whose ranks have different numbers of batches."""

import torch
import torch.distributed
from common import Clock, loss_of, make_network, slow_loader
from torch.distributed.algorithms.join import Join

torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
network = torch.nn.parallel.DistributedDataParallel(make_network())
optimizer = torch.optim.SGD(network.parameters(), lr=1e-4)
loader, clock = slow_loader(25 + 5 * rank, num_workers=1), Clock()
for epoch in range(2):
    clock.begin()
    with Join([network]):
        for batch in loader:
            clock.got()
            optimizer.zero_grad()
            loss_of(batch, network).backward()
            optimizer.step()
            clock.stepped()
        clock.end()
clock.report(rank=rank)
torch.distributed.destroy_process_group()
