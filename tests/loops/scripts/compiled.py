"""A compiled network; the script's clock runs from its first step, compiling included."""

import time

import torch
from common import STEP_S, Clock, network, optimizer, slow_loader

fast = torch.compile(network, backend="aot_eager")
loader, clock = slow_loader(num_workers=1), Clock()
for epoch in range(2):
    clock.begin()
    for batch in loader:
        clock.got()
        optimizer.zero_grad()
        loss = fast(batch).square().mean()
        time.sleep(STEP_S)
        loss.backward()
        optimizer.step()
        clock.stepped()
    clock.end()
clock.report()
