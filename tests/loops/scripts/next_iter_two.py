"""New iterators of two loaders for every step."""

from common import Clock, slow_loader, train

first, second, clock = slow_loader(30, shuffle=True), slow_loader(30, fetch_s=0.01, shuffle=True), Clock()
clock.begin()
for step in range(30):
    left, right = next(iter(first)), next(iter(second))
    clock.got()
    train(left + right)
    clock.stepped()
clock.end()
clock.report()
