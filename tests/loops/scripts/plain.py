"""The loop of every tutorial: two epochs, one worker."""

from common import Clock, slow_loader, train

loader, clock = slow_loader(num_workers=1, shuffle=True), Clock()
for epoch in range(2):
    clock.begin()
    for batch in loader:
        clock.got()
        train(batch)
        clock.stepped()
    clock.end()
clock.report()
