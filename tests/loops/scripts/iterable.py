"""A dataset without an index."""

from common import Clock, Stream, train
from torch.utils.data import DataLoader

loader, clock = DataLoader(Stream(120, 0.009), batch_size=4, num_workers=2), Clock()
for epoch in range(2):
    clock.begin()
    for batch in loader:
        clock.got()
        train(batch)
        clock.stepped()
    clock.end()
clock.report()
