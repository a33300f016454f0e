"""Batches in whatever order workers finish them."""

from common import Clock, slow_loader, train

loader, clock = slow_loader(40, num_workers=2, fetch_s=0.05, in_order=False), Clock()
clock.begin()
for batch in loader:
    clock.got()
    train(batch)
    clock.stepped()
clock.end()
clock.report()
