"""Looks one batch ahead, with a first next before the loop."""

from common import Clock, slow_loader, train

loader, clock = slow_loader(num_workers=1), Clock()
for epoch in range(2):
    clock.begin()
    batches = iter(loader)
    following = next(batches, None)
    while following is not None:
        current, following = following, next(batches, None)
        clock.got()
        train(current)
        clock.stepped()
    clock.end()
clock.report()
