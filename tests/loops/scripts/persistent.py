"""Workers that live on between epochs."""

from common import Clock, slow_loader, train

loader, clock = slow_loader(15, num_workers=2, fetch_s=0.04, persistent_workers=True), Clock()
for epoch in range(3):
    clock.begin()
    for batch in loader:
        clock.got()
        train(batch)
        clock.stepped()
    clock.end()
clock.report()
