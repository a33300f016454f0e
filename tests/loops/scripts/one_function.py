"""One function for training and evaluation, gradients switched in its body, as in the transfer learning tutorial."""

import torch
from common import Clock, loss_of, network, optimizer, slow_loader

loaders, clock = {"train": slow_loader(num_workers=1), "val": slow_loader(8, fetch_s=0.01)}, Clock()
for epoch in range(2):
    for phase in ("train", "val"):
        network.train(phase == "train")
        watched = Clock() if phase == "val" else clock
        watched.begin()
        for batch in loaders[phase]:
            watched.got()
            optimizer.zero_grad()
            with torch.set_grad_enabled(phase == "train"):
                loss = loss_of(batch)
                if phase == "train":
                    loss.backward()
                    optimizer.step()
            watched.stepped()
        watched.end()
clock.report()
