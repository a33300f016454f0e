"""Two passes over one loader in step."""

from common import Clock, slow_loader, train

loader, clock = slow_loader(num_workers=1, shuffle=True), Clock()
for epoch in range(2):
    clock.begin()
    for left, right in zip(loader, loader):
        clock.got()
        train(left - right)
        clock.stepped()
    clock.end()
clock.report()
