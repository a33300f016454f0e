"""A generator of the script's own instead of a loader."""

import time

import torch
from common import Clock, train


def batches():
    for index in range(60):
        time.sleep(0.01)
        yield torch.full((4, 8), float(index))


clock = Clock()
clock.begin()
for batch in batches():
    clock.got()
    train(batch)
    clock.stepped()
clock.end()
clock.report()
