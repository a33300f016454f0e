"""LBFGS: each step calls the loss and its backward pass several times."""

import torch
from common import Clock, network, slow_loader

optimizer = torch.optim.LBFGS(network.parameters(), lr=1e-3, max_iter=4)
loader, clock = slow_loader(40, num_workers=1), Clock()
clock.begin()
for batch in loader:
    clock.got()

    def closure():
        optimizer.zero_grad()
        loss = network(batch / 100).square().mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    clock.stepped()
clock.end()
clock.report()
