"""Two loaders in step; every third pair is left out."""

from common import Clock, slow_loader, train

first, second, clock = slow_loader(30, num_workers=1), slow_loader(30, fetch_s=0.008), Clock()
clock.begin()
for index, (left, right) in enumerate(zip(first, second)):
    clock.got()
    if index % 3 != 2:
        train(left + right)
    clock.stepped()
clock.end()
clock.report()
