"""Trains on picture files, with or without the loader cache; the step takes the pace of an accelerator."""

import argparse
import io
import os
import time

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

import edgetrain

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--decode", action="store_true")
parser.add_argument("--ram")
parser.add_argument("--epochs", type=int, default=4)
given = parser.parse_args()
torch.set_num_threads(1)


class Pictures(Dataset):
    """Reads a file; with --decode it decodes and resizes it, else it takes some of its bytes."""

    def __init__(self, folder):
        self.paths = sorted(entry.path for entry in os.scandir(folder) if entry.is_file())

    def __len__(self):
        return len(self.paths)

    def read(self, path):
        with open(path, "rb") as file:
            return file.read()

    def small(self, path):
        return np.asarray(Image.open(io.BytesIO(self.read(path))).convert("RGB").resize((112, 112)))

    def __getitem__(self, index):
        path = self.paths[index]
        if given.decode:
            return torch.from_numpy(self.small(path).reshape(-1)[:4096].copy()).float()
        return torch.frombuffer(bytearray(self.read(path)[:4096]), dtype=torch.uint8).float()


dataset = Pictures(given.folder)
if given.ram:
    dataset = edgetrain.cached(dataset, given.ram, **({"load": "small"} if given.decode else {"read": "read"}))
network = torch.nn.Linear(4096, 2)
optimizer = torch.optim.SGD(network.parameters(), lr=1e-6)
for _ in range(given.epochs):
    for inputs in DataLoader(dataset, batch_size=16, shuffle=True):
        loss = network(inputs).sum()
        optimizer.zero_grad()
        loss.backward()
        time.sleep(0.01)
        optimizer.step()
