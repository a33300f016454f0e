"""itertools.chain: the loop goes on with the next loader without noticing."""

import itertools

from common import Clock, slow_loader, train

clock = Clock()
clock.begin()
for batch in itertools.chain(*(slow_loader(12, num_workers=1) for _ in range(4))):
    clock.got()
    train(batch)
    clock.stepped()
clock.end()
clock.report()
