"""The usual check for the last step comes after the fetch: one more batch is fetched than is trained."""

from common import Clock, slow_loader, train

loader, clock = slow_loader(60, num_workers=2, fetch_s=0.03), Clock()
for epoch in range(3):
    clock.begin()
    for index, batch in enumerate(loader):
        clock.got()
        if index >= 15:
            break
        train(batch)
        clock.stepped()
    clock.end()
clock.report(steps=45, trained=45)
