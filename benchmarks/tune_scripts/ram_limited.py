"""Trains on large minibatches, 12 MB each, that take a while to make."""

import argparse
import time

import torch
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--fetch-ms", type=float, default=24)
parser.add_argument("--step-ms", type=float, default=10)
given = parser.parse_args()
torch.set_num_threads(1)


class Numbers(Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        time.sleep(given.fetch_ms / 1e3 / 4)
        return torch.full((8,), float(index))


def enlarge(samples):
    """Make the minibatch in shared memory at once, as torch's own collate does: a worker keeps none of it."""
    storage = torch.UntypedStorage._new_shared(12_000_000)
    batch = torch.empty(0, dtype=torch.float32).set_(storage).reshape(4, 750_000)
    batch[:, :8] = torch.stack(samples)
    batch[:, 8:].fill_(1.0)
    return batch


network = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(network.parameters(), lr=1e-6)
loader = DataLoader(Numbers(), batch_size=4, shuffle=True, num_workers=given.workers, collate_fn=enlarge)
for _ in range(100):
    for inputs in loader:
        loss = network(inputs[:, :8]).sum()
        optimizer.zero_grad()
        loss.backward()
        time.sleep(given.step_ms / 1e3)
        optimizer.step()
