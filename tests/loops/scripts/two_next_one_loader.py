"""One loader, asked twice in every step, the second time after the first forward pass."""

from common import Clock, loss_of, optimizer, slow_loader

loader, clock = slow_loader(50, fetch_s=0.012), Clock()
clock.begin()
batches = iter(loader)
for step in range(25):
    anchor = next(batches)
    clock.got()
    loss = loss_of(anchor)
    clock.stepped()
    other = next(batches)
    clock.got(turns=0)
    (loss + loss_of(other)).backward()
    optimizer.step()
    optimizer.zero_grad()
    clock.stepped()
clock.end()
clock.report()
