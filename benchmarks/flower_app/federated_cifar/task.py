"""The network (32x32x3 pictures, one hidden layer, 10 classes) and its data, generated per unit; numpy and torch."""

from __future__ import annotations

import numpy as np

INPUTS, HIDDEN, CLASSES = 32 * 32 * 3, 32, 10
BATCH = 16
SHAPES = ((INPUTS, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,))


def initial_weights() -> list[np.ndarray]:
    """Return the first weights of the server."""
    chance = np.random.default_rng(0)
    return [chance.normal(0, 0.02, shape).astype(np.float32) for shape in SHAPES]


def pictures(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return pictures around one pattern per class, and their classes; the patterns are the same everywhere."""
    patterns = np.random.default_rng(1).normal(0, 1, (CLASSES, INPUTS)).astype(np.float32)
    chance = np.random.default_rng(seed)
    classes = chance.integers(0, CLASSES, count)
    return patterns[classes] + chance.normal(0, 2, (count, INPUTS)).astype(np.float32), classes


def train_with_numpy(weights: list[np.ndarray], seed: int, minibatches: int, rate: float = 0.05) -> float:
    """Train in place; return the mean loss."""
    w1, b1, w2, b2 = weights
    inputs, classes = pictures(seed, BATCH * minibatches)
    losses = []
    for start in range(0, len(inputs), BATCH):
        x, y = inputs[start : start + BATCH], classes[start : start + BATCH]
        hidden = np.maximum(x @ w1 + b1, 0)
        scores = hidden @ w2 + b2
        shares = np.exp(scores - scores.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        losses.append(float(-np.log(shares[np.arange(len(y)), y] + 1e-9).mean()))
        shares[np.arange(len(y)), y] -= 1
        shares /= len(y)
        back = (shares @ w2.T) * (hidden > 0)
        w2 -= rate * hidden.T @ shares
        b2 -= rate * shares.sum(0)
        w1 -= rate * x.T @ back
        b1 -= rate * back.sum(0)
    return float(np.mean(losses))


def load_torch() -> None:
    """Import torch and what its first step imports, which takes seconds in each process: one per message."""
    import torch

    torch.set_num_threads(1)
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    weight.sum().backward()
    optimizer.step()


def train_with_torch(weights: list[np.ndarray], seed: int, minibatches: int, rate: float = 0.05) -> float:
    """The same with torch, whose loader and optimizer edgetrain records."""
    import torch

    torch.set_num_threads(1)
    inputs, classes = pictures(seed, BATCH * minibatches)
    data = torch.utils.data.TensorDataset(torch.from_numpy(inputs), torch.from_numpy(classes))
    network = torch.nn.Sequential(torch.nn.Linear(INPUTS, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, CLASSES))
    with torch.no_grad():
        for own, (given, turn) in zip(
            network.parameters(),
            [(weights[0], True), (weights[1], False), (weights[2], True), (weights[3], False)],
            strict=True,
        ):
            own.copy_(torch.from_numpy(given.T if turn else given))
    optimizer = torch.optim.SGD(network.parameters(), lr=rate)
    losses = []
    for x, y in torch.utils.data.DataLoader(data, batch_size=BATCH):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(x), y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    for given, own in zip(weights, network.parameters(), strict=True):
        trained = own.detach().numpy()
        given[...] = trained.T if trained.ndim == 2 else trained
    return float(np.mean(losses))
