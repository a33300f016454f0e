"""A discriminator step on real and made-up batches, then a generator step."""

import torch
from common import Clock, loss_of, slow_loader

generator, discriminator = torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)
of_d = torch.optim.Adam(discriminator.parameters())
of_g = torch.optim.Adam(generator.parameters())
loader, clock = slow_loader(25, num_workers=1, fetch_s=0.05), Clock()
for epoch in range(2):
    clock.begin()
    for real in loader:
        clock.got()
        of_d.zero_grad()
        loss_of(real, discriminator).backward()
        made = generator(torch.randn(4, 8))
        loss_of(made.detach(), discriminator).backward()
        of_d.step()
        of_g.zero_grad()
        loss_of(made, discriminator).backward()
        of_g.step()
        clock.stepped()
    clock.end()
clock.report(steps=100)
