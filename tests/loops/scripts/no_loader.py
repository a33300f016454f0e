"""Batches drawn by a function, as nanoGPT does; gradient accumulation over two micro-steps."""

import time

import torch
from common import Clock, loss_of, network, optimizer

data = torch.randn(1000, 8)


def get_batch():
    time.sleep(0.008)
    return data[torch.randint(1000, (4,))]


clock = Clock()
network.train()
clock.begin()
batch = get_batch()
for iteration in range(30):
    for micro_step in range(2):
        loss = loss_of(batch) / 2
        batch = get_batch()
        loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    clock.got()
    clock.stepped()
clock.end()
clock.report()
