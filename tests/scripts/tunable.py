"""A training script as a user writes it: a small network, a dataset that takes time, loader arguments by flag."""
import argparse
import atexit
import time

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--fetch-ms", type=float, default=4.0)
parser.add_argument("--step-ms", type=float, default=4.0)
parser.add_argument("--samples", type=int, default=2000)
parser.add_argument("--epochs", type=int, default=100)
parser.add_argument("--save")
parser.add_argument("--save-at-exit")
parser.add_argument("--save-after", type=int, default=0)
parser.add_argument("--save-with-workers", action="store_true")
parser.add_argument("--anew", choices=["at one place", "at two places"])
parser.add_argument("--insist", action="store_true")
parser.add_argument("--stream", action="store_true")
parser.add_argument("--fail-with-workers", action="store_true")
parser.add_argument("--without-loader", action="store_true")
given = parser.parse_args()
torch.set_num_threads(1)


class Slow(Dataset):
    def __len__(self):
        return given.samples

    def __getitem__(self, index):
        if given.fail_with_workers and torch.utils.data.get_worker_info() is not None:
            raise RuntimeError("the database handle cannot be shared")
        time.sleep(given.fetch_ms / 1e3 / 4)
        return torch.full((8,), float(index)), index % 2


class Stream(IterableDataset):
    def __iter__(self):
        return (Slow()[index] for index in range(given.samples))


def one_loader():
    return DataLoader(Slow(), 4, True, num_workers=given.workers)


def another_loader():
    return DataLoader(Slow(), 4, True, num_workers=given.workers)


def main():
    network = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    if given.save_at_exit:
        atexit.register(lambda: torch.save(network.state_dict(), given.save_at_exit))
    validation = DataLoader(Slow(), batch_size=4)
    if given.stream:
        loader = DataLoader(Stream(), 4, num_workers=given.workers)
    else:
        loader = DataLoader(Slow(), 4, True, num_workers=given.workers)
    if given.insist:
        loader.num_workers = given.workers
        loader.prefetch_factor = 2 if given.workers else None
    if given.save and not given.save_after:
        torch.save(network.state_dict(), given.save)
    assert len(validation)
    batches = ((torch.randn(4, 8), torch.zeros(4, dtype=torch.long)) for _ in range(400)) if given.without_loader else None
    trained = 0
    for epoch in range(given.epochs):
        if given.anew:
            loader = another_loader() if given.anew == "at two places" and epoch % 2 else one_loader()
        for inputs, labels in batches or loader:
            loss = torch.nn.functional.cross_entropy(network(inputs), labels)
            time.sleep(given.step_ms / 1e3)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            trained += 1
            if trained == given.save_after and (loader.num_workers or not given.save_with_workers):
                torch.save(network.state_dict(), given.save)


if __name__ == "__main__":
    main()
