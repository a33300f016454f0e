"""Evaluation after each epoch."""

from common import Clock, evaluate, slow_loader, train

loader, held_out, clock = slow_loader(num_workers=1), slow_loader(8, num_workers=1), Clock()
for epoch in range(2):
    clock.begin()
    for batch in loader:
        clock.got()
        train(batch)
        clock.stepped()
    clock.end()
    evaluate(held_out)
clock.report()
