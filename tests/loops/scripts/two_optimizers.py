"""Two networks with an optimizer each."""

import torch
from common import Clock, loss_of, make_network, network, optimizer, slow_loader

other = make_network()
second = torch.optim.Adam(other.parameters())
loader, clock = slow_loader(30, num_workers=1, fetch_s=0.03), Clock()
clock.begin()
for batch in loader:
    clock.got()
    loss_of(batch, network).backward()
    optimizer.step()
    loss_of(batch, other).backward()
    second.step()
    clock.stepped()
clock.end()
clock.report(steps=60)
