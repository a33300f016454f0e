"""Two processes started by torch.multiprocessing.spawn."""

import torch.multiprocessing
from common import Clock, slow_loader, train


def run(rank):
    loader, clock = slow_loader(25, num_workers=1, fetch_s=0.02 + 0.01 * rank, multiprocessing_context="fork"), Clock()
    for epoch in range(2):
        clock.begin()
        for batch in loader:
            clock.got()
            train(batch)
            clock.stepped()
        clock.end()
    clock.report()


if __name__ == "__main__":
    torch.multiprocessing.spawn(run, nprocs=2)
