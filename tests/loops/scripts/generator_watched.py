"""The same, watched: two epochs."""

import time

import torch
from common import Clock, train

import edgetrain


def batches():
    for index in range(30):
        time.sleep(0.01)
        yield torch.full((4, 8), float(index))


clock = Clock()
for epoch in range(2):
    clock.begin()
    for batch in edgetrain.watch(batches()):
        clock.got()
        train(batch)
        clock.stepped()
    clock.end()
clock.report()
