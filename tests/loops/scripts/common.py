"""What the scripts of this folder share: a slow dataset, a small network, and their own stopwatch.

Fetches and steps are sleeps, so that a busy machine changes them little. A script counts its turns, the seconds of its
loops and the seconds it waited for data, by its own clock, and prints them as a line of JSON.
"""

import json
import os
import time

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

torch.set_num_threads(1)
torch.manual_seed(0)
STEP_S = 0.012


class Slow(Dataset):
    """Samples that take a while."""

    def __init__(self, count, sleep_s):
        self.count, self.sleep_s = count, sleep_s

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        time.sleep(self.sleep_s)
        return torch.full((8,), float(index))


class Stream(IterableDataset):
    """The same without an index."""

    def __init__(self, count, sleep_s):
        self.count, self.sleep_s = count, sleep_s

    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        for index in range(first, self.count, step):
            time.sleep(self.sleep_s)
            yield torch.full((8,), float(index))


def slow_loader(batches=25, fetch_s=0.02, **arguments):
    """A loader of minibatches of 4 that take this long to make."""
    return DataLoader(Slow(4 * batches, fetch_s / 4), batch_size=4, **arguments)


class Clock:
    """A stopwatch as people write them: begin, got a batch, stepped, end."""

    def __init__(self):
        self.count = self.loops = 0
        self.loop_s = self.waited_s = 0.0

    def begin(self):
        self.began = self.mark = time.perf_counter()

    def got(self, turns=1):
        self.waited_s += time.perf_counter() - self.mark
        self.count += turns

    def stepped(self):
        self.mark = time.perf_counter()

    def end(self):
        self.loop_s += time.perf_counter() - self.began
        self.loops += 1

    def report(self, **more):
        found = {"count": self.count, "loop_s": self.loop_s, "waited_s": self.waited_s, "loops": self.loops, **more}
        print("STOPWATCH " + json.dumps({"pid": os.getpid(), **found}), flush=True)


def make_network():
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))


network = make_network()
optimizer = torch.optim.SGD(network.parameters(), lr=1e-4)


def loss_of(batch, net=network):
    loss = net(batch).square().mean()
    time.sleep(STEP_S)
    return loss


def train(batch):
    optimizer.zero_grad()
    loss_of(batch).backward()
    optimizer.step()


def evaluate(loader, net=network):
    net.eval()
    with torch.no_grad():
        for batch in loader:
            net(batch).sum().item()
    net.train()
