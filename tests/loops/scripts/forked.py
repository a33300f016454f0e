"""Trains in the parent, then in a forked child, then in the parent again."""

import multiprocessing

from common import Clock, slow_loader, train


def run(batches, clock):
    clock.begin()
    for batch in slow_loader(batches, num_workers=1):
        clock.got()
        train(batch)
        clock.stepped()
    clock.end()


def child():
    clock = Clock()
    run(20, clock)
    clock.report()


clock = Clock()
run(25, clock)
process = multiprocessing.get_context("fork").Process(target=child)
process.start()
process.join()
run(25, clock)
clock.report()
