"""Batches of different sizes, by a batch sampler of the script's own."""

from common import Clock, Slow, train
from torch.utils.data import DataLoader

batches = [list(range(start, start + 2 + start % 5)) for start in range(30)]
loader, clock = DataLoader(Slow(60, 0.005), batch_sampler=batches, num_workers=1), Clock()
for epoch in range(2):
    clock.begin()
    for batch in loader:
        clock.got()
        train(batch)
        clock.stepped()
    clock.end()
clock.report()
