"""As PyTorch's ImageNet example: workers, pinned memory, losses read for the log, validation after each epoch."""

import torch
from common import DEVICE, Clock, Pictures, make_network
from torch.utils.data import DataLoader


def main():
    network, criterion = make_network().to(DEVICE), torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(network.parameters(), 0.01, momentum=0.9, weight_decay=1e-4)
    pinned = DEVICE.type == "cuda"
    train = DataLoader(Pictures(1600), batch_size=16, shuffle=True, num_workers=2, pin_memory=pinned)
    held_out = DataLoader(Pictures(160), batch_size=16, num_workers=2, pin_memory=pinned)
    clock = Clock()
    for _ in range(2):
        network.train()
        clock.begin()
        for images, target in train:
            clock.got()
            images, target = images.to(DEVICE, non_blocking=True), target.to(DEVICE, non_blocking=True)
            loss = criterion(network(images), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item()
            clock.stepped()
        clock.end()
        network.eval()
        with torch.no_grad():
            for images, target in held_out:
                criterion(network(images.to(DEVICE)), target.to(DEVICE)).item()
    clock.report()


if __name__ == "__main__":
    main()
