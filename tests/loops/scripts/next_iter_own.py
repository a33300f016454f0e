"""A new iterator for every step, without workers."""

from common import Clock, slow_loader, train

loader, clock = slow_loader(30, shuffle=True), Clock()
clock.begin()
for step in range(40):
    batch = next(iter(loader))
    clock.got()
    train(batch)
    clock.stepped()
clock.end()
clock.report()
