"""Two loaders, each asked with next in every step."""

from common import Clock, slow_loader, train

labelled, unlabelled, clock = slow_loader(30, num_workers=1), slow_loader(30, fetch_s=0.01), Clock()
clock.begin()
sources = iter(labelled), iter(unlabelled)
for step in range(30):
    x = next(sources[0])
    u = next(sources[1])
    clock.got()
    train(x + u)
    clock.stepped()
clock.end()
clock.report()
