"""The first batches are passed over, as after a resumed checkpoint."""

from common import Clock, slow_loader, train

loader, clock = slow_loader(40, fetch_s=0.01), Clock()
clock.begin()
for index, batch in enumerate(loader):
    clock.got()
    if index >= 15:
        train(batch)
    clock.stepped()
clock.end()
clock.report(trained=25)
