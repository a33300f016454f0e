"""Hugging Face accelerate: its loader looks one batch ahead."""

import torch
from accelerate import Accelerator
from common import Clock, loss_of, network, slow_loader

accelerator, clock = Accelerator(cpu=True), Clock()
optimizer = torch.optim.SGD(network.parameters(), lr=1e-4)
prepared, optimizer, loader = accelerator.prepare(network, optimizer, slow_loader(num_workers=1))
for epoch in range(2):
    clock.begin()
    for batch in loader:
        clock.got()
        optimizer.zero_grad()
        accelerator.backward(loss_of(batch, prepared))
        optimizer.step()
        clock.stepped()
    clock.end()
clock.report()
