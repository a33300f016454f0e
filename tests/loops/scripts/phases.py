"""Two phases of training, one loader after the other, then a few steps on a fixed batch."""

from common import Clock, slow_loader, train

clock = Clock()
for loader in (slow_loader(20, num_workers=1), slow_loader(25, fetch_s=0.012)):
    clock.begin()
    for batch in loader:
        clock.got()
        train(batch)
        clock.stepped()
    clock.end()
clock.report()
