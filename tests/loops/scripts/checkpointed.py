"""Activation checkpointing: backward passes inside the backward pass."""

import time

from common import STEP_S, Clock, network, optimizer, slow_loader
from torch.utils.checkpoint import checkpoint

loader, clock = slow_loader(30, num_workers=1), Clock()
clock.begin()
for batch in loader:
    clock.got()
    optimizer.zero_grad()
    hidden = checkpoint(network[:2], batch.requires_grad_(), use_reentrant=True)
    loss = checkpoint(network[2], hidden, use_reentrant=True).square().mean()
    time.sleep(STEP_S)
    loss.backward()
    optimizer.step()
    clock.stepped()
clock.end()
clock.report(steps=30)
