"""A thread fetches ahead; the loop iterates what it hands over, watched."""

import queue
import threading

from common import Clock, slow_loader, train

import edgetrain


def ahead(loader):
    batches = queue.Queue(maxsize=2)

    def fill():
        for batch in loader:
            batches.put(batch)
        batches.put(None)

    threading.Thread(target=fill).start()
    while (batch := batches.get()) is not None:
        yield batch


loader, clock = slow_loader(30, fetch_s=0.025), Clock()
for epoch in range(2):
    clock.begin()
    for batch in edgetrain.watch(ahead(loader)):
        clock.got()
        train(batch)
        clock.stepped()
    clock.end()
clock.report()
