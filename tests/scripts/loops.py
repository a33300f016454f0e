"""Loops of many shapes, one after the other, in one process."""
import itertools

import torch
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
net, other = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)
optimizer, second = torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.Adam(other.parameters())


def loader(batches, **more):
    return DataLoader(TensorDataset(torch.randn(4 * batches, 4)), batch_size=4, **more)


def accumulate(batches):  # loader 0: four minibatches a step
    for place, (x,) in enumerate(batches):
        net(x).sum().backward()
        if place % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


def two_optimizers(batches):  # loader 1: two steps a minibatch
    for (x,) in batches:
        net(x).sum().backward()
        optimizer.step()
        other(x).sum().backward()
        second.step()


def validated_inside(batches, validation):  # loaders 2 and 3: validation in the middle of an epoch
    for place, (x,) in enumerate(batches):
        net(x).sum().backward()
        optimizer.step()
        if place == 2:
            net.eval()
            for (y,) in validation:
                with torch.no_grad():
                    net(y)
            net.train()


def in_step(left, right):  # loaders 4 and 5: a pair of loaders
    for (x,), (y,) in zip(left, right):
        (net(x) + other(y)).sum().backward()
        optimizer.step()


class Trainer:  # loader 6: what frameworks do: iterators by hand, closures, endless loaders
    def fit(self, batches, steps):
        iterator = iter(itertools.chain.from_iterable(itertools.repeat(batches)))
        for _ in range(steps):
            (batch,) = next(iterator)

            def closure():
                optimizer.zero_grad()
                loss = net(batch).sum()
                loss.backward()
                return loss

            optimizer.step(closure)


def never_trained(batches):  # loader 7: features only
    for (x,) in batches:
        with torch.no_grad():
            net(x)


accumulate(loader(8))
two_optimizers(loader(4, num_workers=1))
validated_inside(loader(6), loader(3))
in_step(loader(5), loader(5))
Trainer().fit(loader(3), 7)
net.train()
never_trained(loader(4))
