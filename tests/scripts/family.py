"""Trains in children: one spawned by multiprocessing, one forked, one started as a program of its own."""
import multiprocessing
import subprocess
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset


def train(batches):
    torch.set_num_threads(1)
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for (x,) in DataLoader(TensorDataset(torch.randn(4 * batches, 4)), batch_size=4, num_workers=1):
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()


if __name__ == "__main__":
    if sys.argv[1:] == ["child"]:
        train(5)
        sys.exit()
    subprocess.run([sys.executable, "-c", "print('a child that does not train')"], check=True)
    subprocess.run([sys.executable, __file__, "child"], check=True)
    for method, batches in (("fork", 3), ("spawn", 4)):
        context = multiprocessing.get_context(method)
        child = context.Process(target=train, args=(batches,))
        child.start()
        child.join()
    train(6)
