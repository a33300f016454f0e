"""Losses are summed up; one backward pass and step every four batches."""

from common import Clock, loss_of, optimizer, slow_loader

loader, clock = slow_loader(24, num_workers=1), Clock()
for epoch in range(2):
    clock.begin()
    total = 0
    for index, batch in enumerate(loader):
        clock.got()
        total = total + loss_of(batch)
        if index % 4 == 3:
            total.backward()
            optimizer.step()
            optimizer.zero_grad()
            total = 0
        clock.stepped()
    clock.end()
clock.report()
