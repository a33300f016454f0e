"""Is killed in mid-epoch, five seconds after it began."""

import os
import signal

from common import Clock, slow_loader, train

loader, clock = slow_loader(10000, num_workers=1), Clock()
clock.begin()
for index, batch in enumerate(loader, 1):
    clock.got()
    train(batch)
    clock.stepped()
    if index == 200:
        clock.end()
        clock.report()
        os.kill(os.getpid(), signal.SIGKILL)
