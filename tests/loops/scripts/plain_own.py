"""No workers: the loop makes its batches itself."""

from common import Clock, slow_loader, train

loader, clock = slow_loader(), Clock()
for epoch in range(2):
    clock.begin()
    for batch in loader:
        clock.got()
        train(batch)
        clock.stepped()
    clock.end()
clock.report()
