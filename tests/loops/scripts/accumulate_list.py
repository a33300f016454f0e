"""Four batches are fetched first and then trained one after the other."""

from common import Clock, loss_of, optimizer, slow_loader

loader, clock = slow_loader(28, num_workers=1, fetch_s=0.035), Clock()
for epoch in range(2):
    clock.begin()
    batches = iter(loader)
    for step in range(7):
        drawn = [next(batches) for _ in range(4)]
        clock.got(turns=4)
        for batch in drawn:
            (loss_of(batch) / 4).backward()
        optimizer.step()
        optimizer.zero_grad()
        clock.stepped()
    clock.end()
clock.report()
