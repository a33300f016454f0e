"""Trains on files: reads each, pre-processes it for a while, and steps at the pace of an accelerator."""

import argparse
import os
import time

import torch
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--workers", type=int, default=0)
given = parser.parse_args()
torch.set_num_threads(1)


class Files(Dataset):
    def __init__(self, folder):
        self.paths = sorted(entry.path for entry in os.scandir(folder) if entry.is_file())

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with open(self.paths[index], "rb") as file:
            data = file.read()
        time.sleep(0.012)  # decoding and augmentation
        return torch.frombuffer(bytearray(data[:4096]), dtype=torch.uint8).float()


network = torch.nn.Linear(4096, 2)
optimizer = torch.optim.SGD(network.parameters(), lr=1e-6)
for _ in range(100):
    for inputs in DataLoader(Files(given.folder), batch_size=4, shuffle=True, num_workers=given.workers):
        loss = network(inputs).sum()
        optimizer.zero_grad()
        loss.backward()
        time.sleep(0.012)  # the accelerator's step
        optimizer.step()
