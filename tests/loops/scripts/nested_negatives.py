"""A second loader gives one batch per step and starts again when it ends."""

from common import Clock, slow_loader, train

loader, negatives, clock = slow_loader(30, num_workers=1), slow_loader(7, fetch_s=0.008), Clock()
others = iter(negatives)
for epoch in range(2):
    clock.begin()
    for batch in loader:
        try:
            negative = next(others)
        except StopIteration:
            others = iter(negatives)
            negative = next(others)
        clock.got()
        train(batch - negative)
        clock.stepped()
    clock.end()
clock.report()
