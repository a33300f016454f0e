"""A compiled optimizer step: it calls none of the optimizer's hooks."""

import torch
from common import Clock, loss_of, optimizer, slow_loader

step = torch.compile(optimizer.step, backend="eager")
loader, clock = slow_loader(num_workers=1), Clock()
for epoch in range(2):
    clock.begin()
    for batch in loader:
        clock.got()
        optimizer.zero_grad()
        loss_of(batch).backward()
        step()
        clock.stepped()
    clock.end()
clock.report(steps=None)
