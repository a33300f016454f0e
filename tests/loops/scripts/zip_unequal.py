"""Two loaders in step, of which the second ends first."""

from common import Clock, slow_loader, train

first, second, clock = slow_loader(24, num_workers=1), slow_loader(18, fetch_s=0.01), Clock()
for epoch in range(3):
    clock.begin()
    for left, right in zip(first, second):
        clock.got()
        train(left + right)
        clock.stepped()
    clock.end()
clock.report()
