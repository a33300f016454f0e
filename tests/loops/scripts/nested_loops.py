"""A loader inside a loader: every pair of batches is a step."""

from common import Clock, slow_loader, train

outer, inner, clock = slow_loader(5, num_workers=1), slow_loader(6, fetch_s=0.01), Clock()
clock.begin()
for left in outer:
    for right in inner:
        clock.got()
        train(left + right)
        clock.stepped()
clock.end()
clock.report()
