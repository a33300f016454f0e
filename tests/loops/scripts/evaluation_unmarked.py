"""Evaluation every ten steps that neither switches the network over nor turns gradients off."""

from common import Clock, network, slow_loader, train

loader, held_out, clock = slow_loader(30, num_workers=1), slow_loader(5), Clock()
for epoch in range(2):
    clock.begin()
    for index, batch in enumerate(loader, 1):
        clock.got()
        train(batch)
        if index % 10 == 5:
            for other in held_out:
                network(other).sum().item()
        clock.stepped()
    clock.end()
clock.report(steps=60, trained=60)
