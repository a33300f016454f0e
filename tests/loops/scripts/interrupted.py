"""Control-C in the middle of an epoch."""

import os
import signal

from common import Clock, slow_loader, train

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
clock = Clock()
clock.begin()
try:
    for index, batch in enumerate(slow_loader(60, num_workers=1)):
        clock.got()
        train(batch)
        clock.stepped()
        if index == 39:
            os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    clock.end()
    clock.report()
    raise
