"""What these scripts share: a dataset whose samples take a while, a convolutional network, and a stopwatch."""

import json
import os
import time

import torch
from torch.utils.data import Dataset

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)


class Pictures(Dataset):
    """Pictures of 3 × 64 × 64 that take this long to read each."""

    def __init__(self, count, sleep_s=0.004):
        self.count, self.sleep_s = count, sleep_s

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        time.sleep(self.sleep_s)
        return torch.full((3, 64, 64), index / self.count), index % 10


def make_network():
    layers, width = [], 3
    for wider in (32, 64, 128, 256):
        layers += [torch.nn.Conv2d(width, wider, 3, stride=2, padding=1), torch.nn.BatchNorm2d(wider), torch.nn.ReLU()]
        width = wider
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(width, 10))


class Clock:
    """Begin, got a batch, stepped, end; the accelerator has finished where a loss was read."""

    def __init__(self):
        self.count = self.loops = 0
        self.loop_s = self.waited_s = 0.0

    def begin(self):
        self.began = self.mark = time.perf_counter()

    def got(self):
        self.waited_s += time.perf_counter() - self.mark

    def stepped(self, count=1):
        self.mark = time.perf_counter()
        self.count += count

    def end(self):
        self.loop_s += time.perf_counter() - self.began
        self.loops += 1

    def report(self):
        found = {"count": self.count, "loop_s": self.loop_s, "waited_s": self.waited_s, "loops": self.loops}
        print("STOPWATCH " + json.dumps({"pid": os.getpid(), **found}), flush=True)
