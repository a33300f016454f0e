"""Two workers, enumerate, a last batch that is short."""

from common import Clock, Slow, train
from torch.utils.data import DataLoader

loader, clock = DataLoader(Slow(101, 0.012), batch_size=4, num_workers=2), Clock()
for epoch in range(2):
    clock.begin()
    for index, batch in enumerate(loader):
        clock.got()
        train(batch)
        clock.stepped()
    clock.end()
clock.report()
