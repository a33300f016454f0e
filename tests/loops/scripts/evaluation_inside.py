"""Evaluation every ten steps, within the epoch."""

from common import Clock, evaluate, slow_loader, train

loader, held_out, clock = slow_loader(30, num_workers=1), slow_loader(5), Clock()
for epoch in range(2):
    clock.begin()
    for index, batch in enumerate(loader, 1):
        clock.got()
        train(batch)
        if index % 10 == 0:
            evaluate(held_out)
        clock.stepped()
    clock.end()
clock.report()
