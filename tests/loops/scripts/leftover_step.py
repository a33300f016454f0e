"""Gradient accumulation with a last step after the loop for what is left over."""

from common import Clock, loss_of, optimizer, slow_loader

loader, clock = slow_loader(26, num_workers=1), Clock()
for epoch in range(2):
    clock.begin()
    for index, batch in enumerate(loader):
        clock.got()
        (loss_of(batch) / 4).backward()
        if index % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
        clock.stepped()
    clock.end()
    optimizer.step()
    optimizer.zero_grad()
clock.report()
