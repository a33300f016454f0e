"""Hugging Face accelerate with gradient accumulation."""

import torch
from accelerate import Accelerator
from common import Clock, loss_of, network, slow_loader

accelerator, clock = Accelerator(cpu=True, gradient_accumulation_steps=3), Clock()
optimizer = torch.optim.SGD(network.parameters(), lr=1e-4)
prepared, optimizer, loader = accelerator.prepare(network, optimizer, slow_loader(26, num_workers=1))
for epoch in range(2):
    clock.begin()
    for batch in loader:
        clock.got()
        with accelerator.accumulate(prepared):
            accelerator.backward(loss_of(batch, prepared))
            optimizer.step()
            optimizer.zero_grad()
        clock.stepped()
    clock.end()
clock.report()
