"""Trains a tiny network on data that is in memory."""

import argparse

import torch
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=2)
given = parser.parse_args()
torch.set_num_threads(1)
data = TensorDataset(torch.randn(6400, 1, 28, 28), torch.randint(10, (6400,)))
network = torch.nn.Sequential(
    torch.nn.Conv2d(1, 6, 5), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(864, 10)
)
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
for _ in range(1000):
    for inputs, labels in DataLoader(data, batch_size=16, shuffle=True, num_workers=given.workers):
        loss = torch.nn.functional.cross_entropy(network(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
