"""An endless generator over one loader, asked twice in every step."""

from common import Clock, slow_loader, train


def forever(loader):
    while True:
        for batch in loader:
            yield batch


batches, clock = forever(slow_loader(20, num_workers=1)), Clock()
clock.begin()
for step in range(30):
    left = next(batches)
    right = next(batches)
    clock.got()
    train(left - right)
    clock.stepped()
clock.end()
clock.report()
