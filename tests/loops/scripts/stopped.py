"""Is stopped for two seconds by another process."""

import os
import subprocess

from common import Clock, slow_loader, train

loader, clock = slow_loader(60, num_workers=1), Clock()
clock.begin()
for index, batch in enumerate(loader):
    clock.got()
    train(batch)
    clock.stepped()
    if index == 20:
        subprocess.Popen(["sh", "-c", f"sleep 0.2; kill -STOP {os.getpid()}; sleep 2; kill -CONT {os.getpid()}"])
clock.end()
clock.report()
