"""One process of two, without synchronising: the second is slower."""

import os

from common import Clock, slow_loader, train

rank = int(os.environ["RANK"])
loader, clock = slow_loader(25, num_workers=1, fetch_s=0.02 + 0.01 * rank), Clock()
for epoch in range(2):
    clock.begin()
    for batch in loader:
        clock.got()
        train(batch)
        clock.stepped()
    clock.end()
clock.report(rank=rank)
