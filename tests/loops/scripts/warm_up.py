"""The first batches only move the learning rate and running statistics: forward passes without gradients or steps."""

import torch
from common import Clock, loss_of, network, slow_loader, train

loader, clock = slow_loader(40, num_workers=1), Clock()
clock.begin()
for index, batch in enumerate(loader):
    clock.got()
    if index < 8:
        with torch.no_grad():
            loss_of(batch, network)
    else:
        train(batch)
    clock.stepped()
clock.end()
clock.report(trained=32)
