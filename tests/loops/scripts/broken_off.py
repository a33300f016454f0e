"""At most 15 batches of each epoch."""

from common import Clock, slow_loader, train

loader, clock = slow_loader(60, num_workers=2, fetch_s=0.04), Clock()
for epoch in range(3):
    clock.begin()
    for index, batch in enumerate(loader):
        clock.got()
        train(batch)
        clock.stepped()
        if index == 14:
            break
    clock.end()
clock.report()
