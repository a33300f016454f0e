"""A new iterator for every step, and with it new workers."""

from common import Clock, slow_loader, train

loader, clock = slow_loader(30, num_workers=1), Clock()
clock.begin()
for step in range(20):
    batch = next(iter(loader))
    clock.got()
    train(batch)
    clock.stepped()
clock.end()
clock.report()
