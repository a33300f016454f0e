"""An exception in mid-epoch ends the script."""

from common import Clock, slow_loader, train

loader, clock = slow_loader(60), Clock()
clock.begin()
for index, batch in enumerate(loader):
    clock.got()
    train(batch)
    clock.stepped()
    if index == 29:
        clock.end()
        clock.report()
        raise ValueError("loss is not finite")
