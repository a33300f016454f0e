"""Every batch is trained on three times, as in reinforcement learning."""

from common import Clock, slow_loader, train

loader, clock = slow_loader(20, num_workers=1, fetch_s=0.05), Clock()
clock.begin()
for batch in loader:
    clock.got()
    for _ in range(3):
        train(batch)
    clock.stepped()
clock.end()
clock.report(steps=60)
