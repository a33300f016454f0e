"""An endless generator, steps counted by the script."""

from common import Clock, slow_loader, train


def forever(loader):
    while True:
        yield from loader


clock = Clock()
clock.begin()
for step, batch in enumerate(forever(slow_loader(20, num_workers=1)), 1):
    clock.got()
    train(batch)
    clock.stepped()
    if step == 50:
        break
clock.end()
clock.report()
