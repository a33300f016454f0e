"""A loader that keeps its workers and its iterator for good, as trainers of detectors have it; evaluation between."""

import time

from common import Clock, Slow, evaluate, slow_loader, train
from torch.utils.data import DataLoader


class Endless:
    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        while True:
            yield from self.sampler


class OneIterator(DataLoader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        object.__setattr__(self, "batch_sampler", Endless(self.batch_sampler))
        self.iterator = super().__iter__()

    def __len__(self):
        return len(self.batch_sampler.sampler)

    def __iter__(self):
        for _ in range(len(self)):
            yield next(self.iterator)


loader, held_out, clock = OneIterator(Slow(100, 0.005), batch_size=4, num_workers=1), slow_loader(10), Clock()
time.sleep(0.2)  # the network is made, say
for epoch in range(2):
    clock.begin()
    for batch in loader:
        clock.got()
        train(batch)
        clock.stepped()
    clock.end()
    evaluate(held_out)
clock.report()
