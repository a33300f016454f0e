"""A loss that is not finite is left out: the forward pass was made, the backward pass is not."""

import math

from common import Clock, loss_of, optimizer, slow_loader

loader, clock, trained = slow_loader(num_workers=1), Clock(), 0
for epoch in range(2):
    clock.begin()
    for index, batch in enumerate(loader):
        clock.got()
        optimizer.zero_grad()
        loss = loss_of(batch) + (math.inf if index % 6 == 4 else 0.0)
        if not math.isfinite(loss.item()):
            clock.stepped()
            continue
        loss.backward()
        optimizer.step()
        trained += 1
        clock.stepped()
    clock.end()
clock.report(steps=trained, trained=trained)
