"""A second loader gives three batches per step."""

from common import Clock, slow_loader, train

loader, negatives, clock = slow_loader(20, num_workers=1), slow_loader(60, fetch_s=0.006), Clock()
others = iter(negatives)
clock.begin()
for batch in loader:
    drawn = [next(others) for _ in range(3)]
    clock.got()
    train(batch - sum(drawn))
    clock.stepped()
clock.end()
clock.report()
