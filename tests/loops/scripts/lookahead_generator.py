"""A generator that fetches one ahead, made anew for each epoch, over workers that persist."""

import time

from common import Clock, slow_loader, train


def ahead(loader):
    batches = iter(loader)
    current = next(batches)
    for following in batches:
        yield current
        current = following
    yield current


loader, clock = slow_loader(20, num_workers=1, persistent_workers=True), Clock()
for epoch in range(3):
    clock.begin()
    for batch in ahead(loader):
        clock.got()
        train(batch)
        clock.stepped()
    clock.end()
    time.sleep(0.1)  # a checkpoint, say
clock.report()
