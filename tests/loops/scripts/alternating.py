"""Two loaders in turn, a step each."""

from common import Clock, slow_loader, train

first, second, clock = slow_loader(25, num_workers=1), slow_loader(25, fetch_s=0.01), Clock()
clock.begin()
tasks = [iter(first), iter(second)]
for step in range(50):
    batch = next(tasks[step % 2])
    clock.got()
    train(batch)
    clock.stepped()
clock.end()
clock.report()
