"""A labelled and an unlabelled batch with a backward pass each, then one step."""

from common import Clock, loss_of, optimizer, slow_loader

clock = Clock()
for epoch in range(2):
    clock.begin()
    labelled, unlabelled = iter(slow_loader(20, num_workers=1)), iter(slow_loader(20, fetch_s=0.01))
    for step in range(20):
        optimizer.zero_grad()
        batch = next(labelled)
        clock.got()
        loss_of(batch).backward()
        clock.stepped()
        batch = next(unlabelled)
        clock.got(turns=0)
        loss_of(batch).backward()
        optimizer.step()
        clock.stepped()
    del labelled, unlabelled  # or their workers are stopped while the next ones are waited for
    clock.end()
clock.report(steps=40, trained=40)
