"""Asks for the next batch between the forward and the backward pass of this one."""

from common import Clock, loss_of, optimizer, slow_loader

loader, clock = slow_loader(40, fetch_s=0.01), Clock()
clock.begin()
batches = iter(loader)
batch = next(batches)
clock.got(turns=0)
for step in range(39):
    loss = loss_of(batch)
    clock.stepped()
    batch = next(batches)
    clock.got()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
clock.end()
clock.report()
