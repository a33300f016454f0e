"""A prefetcher as accelerator examples have it: it asks for the next batch before it gives this one away."""

from common import Clock, slow_loader, train


class Prefetcher:
    def __init__(self, loader):
        self.batches = iter(loader)
        self.preload()

    def preload(self):
        try:
            self.following = next(self.batches)
        except StopIteration:
            self.following = None

    def next(self):
        batch = self.following
        self.preload()
        return batch


loader, clock = slow_loader(num_workers=1), Clock()
for epoch in range(2):
    clock.begin()
    prefetcher = Prefetcher(loader)
    batch = prefetcher.next()
    while batch is not None:
        clock.got()
        train(batch)
        clock.stepped()
        batch = prefetcher.next()
    clock.end()
clock.report()
