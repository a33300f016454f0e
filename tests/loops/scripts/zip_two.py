"""Two loaders in step."""

from common import Clock, slow_loader, train

labelled, unlabelled, clock = slow_loader(num_workers=1), slow_loader(fetch_s=0.01), Clock()
for epoch in range(2):
    clock.begin()
    for left, right in zip(labelled, unlabelled):
        clock.got()
        train(left + right)
        clock.stepped()
    clock.end()
clock.report()
