"""Mixed precision with a gradient scaler."""

import torch
from common import Clock, loss_of, optimizer, slow_loader

scaler, loader, clock = torch.amp.GradScaler("cpu"), slow_loader(num_workers=1), Clock()
for epoch in range(2):
    clock.begin()
    for batch in loader:
        clock.got()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(batch)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        clock.stepped()
    clock.end()
clock.report()
