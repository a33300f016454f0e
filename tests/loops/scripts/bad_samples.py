"""Some fetches raise; the loop goes on with the next batch."""

from common import Clock, Slow, train
from torch.utils.data import DataLoader


class Bad(Slow):
    def __getitem__(self, index):
        if index % 37 == 5:
            raise OSError("cannot be read")
        return super().__getitem__(index)


loader, clock = DataLoader(Bad(160, 0.005), batch_size=4, num_workers=1), Clock()
clock.begin()
batches = iter(loader)
while True:
    try:
        batch = next(batches)
    except OSError:
        continue
    except StopIteration:
        break
    clock.got()
    train(batch)
    clock.stepped()
clock.end()
clock.report()
