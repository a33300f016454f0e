"""Pinned memory, which on a machine without an accelerator does nothing."""

import warnings

from common import Clock, slow_loader, train

warnings.filterwarnings("ignore", ".*pin_memory.*")
loader, clock = slow_loader(num_workers=1, pin_memory=True), Clock()
for epoch in range(2):
    clock.begin()
    for batch in loader:
        clock.got()
        train(batch)
        clock.stepped()
    clock.end()
clock.report()
