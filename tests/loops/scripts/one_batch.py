"""Overfits one batch, to see that the network can learn at all: one fetch, many steps."""

from common import Clock, slow_loader, train

loader, clock = slow_loader(num_workers=1), Clock()
clock.begin()
batch = next(iter(loader))
clock.got(turns=0)
for step in range(60):
    clock.count += 1
    train(batch)
clock.end()
clock.report(steps=60)
