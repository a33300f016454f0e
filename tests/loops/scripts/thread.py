"""A thread iterates the loader and hands batches over in a queue."""

import queue
import threading

from common import Clock, slow_loader, train

loader, clock = slow_loader(40, num_workers=1), Clock()
batches = queue.Queue(maxsize=2)


def fill():
    for batch in loader:
        batches.put(batch)
    batches.put(None)


clock.begin()
threading.Thread(target=fill).start()
while (batch := batches.get()) is not None:
    clock.got()
    train(batch)
    clock.stepped()
clock.end()
clock.report()
