"""Looks at one batch before training, through the network too."""

from common import Clock, network, slow_loader, train

loader, clock = slow_loader(num_workers=1), Clock()
batch = next(iter(loader))
print(batch.shape, network(batch).shape)
for epoch in range(2):
    clock.begin()
    for batch in loader:
        clock.got()
        train(batch)
        clock.stepped()
    clock.end()
clock.report()
