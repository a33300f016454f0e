"""A watched generator that reads from a loader itself."""

import time

from common import Clock, slow_loader, train

import edgetrain


def augmented(loader):
    for batch in loader:
        time.sleep(0.005)
        yield batch + 1


loader, clock = slow_loader(num_workers=1), Clock()
for epoch in range(2):
    clock.begin()
    for batch in edgetrain.watch(augmented(loader)):
        clock.got()
        train(batch)
        clock.stepped()
    clock.end()
clock.report()
