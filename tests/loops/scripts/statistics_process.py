"""The parent computes statistics of the dataset, for longer than the two processes that it spawns train."""

import torch.multiprocessing
from common import Clock, slow_loader, train


def run(rank):
    loader, clock = slow_loader(30, num_workers=1, multiprocessing_context="fork"), Clock()
    clock.begin()
    for batch in loader:
        clock.got()
        train(batch)
        clock.stepped()
    clock.end()
    clock.report()


if __name__ == "__main__":
    total = sum(float(batch.mean()) for batch in slow_loader(60, num_workers=1))
    torch.multiprocessing.spawn(run, nprocs=2)
