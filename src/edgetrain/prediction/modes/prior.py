"""Priors: what the fits of other networks imply about a network before any of its modes is profiled.

A prior holds, per network and board, the fitted coefficients of `physics` relative to the top mode and how far the
measured modes scattered around them, but no measured value. It becomes a Gaussian: the mean over networks, and their
covariance shrunk towards a wide generic guess, because a few networks do not show how different the next one can be.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgetrain.prediction.base import Array
from edgetrain.prediction.modes.physics import POWER_TERMS, TIME_TERMS

LOG = logging.getLogger(__name__)

# The published tables, and so the shipped prior, use short names for some networks of the catalogue.
_ALIASES = {"mobilenet": "mobnet", "mobilenet_v3": "mobnet", "mobilenetv3": "mobnet", "resnet18": "resnet"}

# A wide guess for any network on any board: log of each term's share of the time (or power) at the top mode,
# sharpness of the maxima about 3, exponents about 1, most of each term growing with the batch size.
_TIME_GUESS = [
    *(-0.5, -0.7, -1.2, -2.5, -1.7),
    *(np.log(3.0),) * 3,
    *(1.0, 1.0, 1.0, 1.1, 1.0, 0.05, 0.1),
    *(2.0, 2.0, 0.0, 1.0, 2.0, 0.9),
]
_TIME_WIDTH = [
    *(0.8, 0.9, 1.2, 1.2, 1.2),
    *(0.6,) * 3,
    *(0.08, 0.08, 0.12, 0.2, 0.6, 0.06, 0.1),
    *(2.0, 2.0, 2.0, 2.0, 2.0, 0.08),
]
_POWER_GUESS = [
    *(-1.5, -3.2, -3.2, -2.6, -2.6, -2.0, -1.5, -2.8, -4.5),
    *(1.5, 0.7, 2.3, 2.0, 2.0, 2.5),
    *(2.0,) * 4,
]
_POWER_WIDTH = [
    *(0.6, 0.8, 0.8, 0.8, 1.0, 1.0, 1.0, 0.9, 1.2),
    *(0.8, 0.3, 0.6, 0.6, 0.8, 1.2),
    *(2.0,) * 4,
]
SCALE_WIDTH = 3.0  # standard deviation of the log of the common scale of all times (or powers)
_MEAN_WEIGHT = 1.5  # the generic guess counts as this many networks in the mean
_SPREAD_WEIGHT = 2.0  # and as this many in the covariance
_BOARD_MEAN_WEIGHT = 0.1  # in the Gaussian of one board, that of all boards counts as this many networks
_BOARD_SPREAD_WEIGHT = 0.4
_EM_STEPS = 20
_CONSTANT_SHARE = -0.6  # log share of the constant term at the top mode in networks dominated by it
_SCATTER_GUESS = (0.012, 0.012)  # of time and of power, without any entry


@dataclass(frozen=True, slots=True)
class PriorEntry:
    """One network on one board: its coefficients relative to the top mode, and the scatter around them."""

    network: str
    board: str
    kind: str  # train | infer
    time: tuple[float, ...]
    power: tuple[float, ...]
    time_spread: tuple[float, ...]  # standard deviation with which the modes determined each coefficient
    power_spread: tuple[float, ...]
    time_scatter: float  # scale of the residuals (Student's t) of modes where the accelerator dominates
    power_scatter: float
    modes: int
    batch_size: float | None = None
    weight: float = 1.0
    source: str = ""

    def is_named(self, name: str) -> bool:
        """Return whether `network`, `board` or `network@board` means this entry."""
        network, _, board = name.partition("@")
        is_network = self.network in (network, _ALIASES.get(network))
        if board:
            return board == self.board and (is_network or not network)
        return is_network or network == self.board


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Mean and covariance of a coefficient vector."""

    mean: Array
    covariance: Array


@dataclass(frozen=True, slots=True)
class PriorQuantity:
    """Time or power: its coefficients and the generic guess for them."""

    coefficients: Callable[[PriorEntry], tuple[float, ...]]
    spreads: Callable[[PriorEntry], tuple[float, ...]]
    terms: int
    guess: list[float]
    width: list[float]
    constant: tuple[int, int] | None = None  # the constant term, and the one it is most easily confused with

    def freed(self, gaussian: Gaussian) -> Gaussian:
        """Return the Gaussian with an undetermined common scale of the terms."""
        shift = np.zeros(len(gaussian.mean))
        shift[: self.terms] = SCALE_WIDTH
        return replace(gaussian, covariance=gaussian.covariance + np.outer(shift, shift))


TIME = PriorQuantity(
    lambda entry: entry.time, lambda entry: entry.time_spread, TIME_TERMS, _TIME_GUESS, _TIME_WIDTH, constant=(3, 2)
)
POWER = PriorQuantity(
    lambda entry: entry.power, lambda entry: entry.power_spread, POWER_TERMS, _POWER_GUESS, _POWER_WIDTH
)


@dataclass(frozen=True, slots=True)
class Prior:
    """Entries, and the Gaussians derived from them."""

    name: str
    entries: tuple[PriorEntry, ...]
    provenance: str = ""

    @property
    def held(self) -> list[str]:
        """Return `network on board (kind)` of every entry, once each."""
        return list(dict.fromkeys(f"{e.network} on {e.board} ({e.kind})" for e in self.entries))

    def without(self, names: Iterable[str]) -> Prior:
        """Leave out networks (`resnet`), boards (`orin-nano`) or one network on one board (`resnet@orin-nano`)."""
        entries = self.entries
        for name in names:
            left = tuple(entry for entry in entries if not entry.is_named(name))
            if len(left) == len(entries):
                LOG.warning("the prior %s has no entry %s, so nothing was left out", self.name, name)
            entries = left
        return replace(self, entries=entries)

    def time(self) -> Gaussian:
        """Return the distribution of a network's time coefficients, from all entries together."""
        return self._gaussians(TIME)[0]

    def power(self) -> Gaussian:
        """Return the distribution of a network's power coefficients, from all entries together."""
        return self._gaussians(POWER)[0]

    def times(self) -> list[Gaussian]:
        """Return distributions of time coefficients: of all entries, then per board and kind, then special ones."""
        return self._gaussians(TIME)

    def powers(self) -> list[Gaussian]:
        """Return the same for power, whose static part depends on the board more than on the network."""
        return self._gaussians(POWER)

    def _gaussians(self, quantity: PriorQuantity) -> list[Gaussian]:
        generic = Gaussian(np.array(quantity.guess, dtype=float), np.diag(np.square(quantity.width)))
        whole = _population(self.entries, quantity, generic, _MEAN_WEIGHT, _SPREAD_WEIGHT)
        found = [whole]
        for own in self._groups():
            found.append(_population(own, quantity, whole, _BOARD_MEAN_WEIGHT, _BOARD_SPREAD_WEIGHT))
        if quantity.constant is not None:
            found.append(_dominated_by_constant(whole, *quantity.constant))
        return [quantity.freed(gaussian) for gaussian in found]

    def scatter(self, which: int = 0) -> tuple[float, float]:
        """Return the typical scatter of time and of power around the model, for one of `times()`."""
        if not self.entries:
            return _SCATTER_GUESS
        time, power = _scatter(self.entries, _SCATTER_GUESS, 0.0)
        groups = self._groups()
        if 0 < which <= len(groups):
            # A group may hold a single network, whose scatter need not be typical of its board.
            time, power = _scatter(groups[which - 1], (time, power), 1.0)
        return time, power

    def _groups(self) -> list[list[PriorEntry]]:
        """Return the entries by board and kind, if there is more than one such group."""
        groups = list(dict.fromkeys((e.board, e.kind) for e in self.entries))
        if len(groups) < 2:
            return []
        return [[e for e in self.entries if (e.board, e.kind) == group] for group in groups]


def _dominated_by_constant(whole: Gaussian, constant: int, confused: int) -> Gaussian:
    """Return the distribution for networks that spend most of a minibatch on work that no clock speeds up.

    None of the networks in the shipped prior is of this kind, but VGG-11 on AGX Xavier is (its 133 million weights are
    updated after every minibatch of 16). Without this distribution such a network is fitted as host-bound.
    """
    mean, covariance = whole.mean.copy(), whole.covariance.copy()
    for term, height, width in ((constant, _CONSTANT_SHARE, 0.4), (confused, _CONSTANT_SHARE - 1.7, 1.0)):
        mean[term] = height
        covariance[term, :] = covariance[:, term] = 0.0
        covariance[term, term] = width**2
    return Gaussian(mean, covariance)


def _scatter(entries: Sequence[PriorEntry], guess: tuple[float, float], guess_weight: float) -> tuple[float, float]:
    weight = sum(e.weight for e in entries) + guess_weight
    time = sum(e.weight * e.time_scatter for e in entries) + guess_weight * guess[0]
    power = sum(e.weight * e.power_scatter for e in entries) + guess_weight * guess[1]
    return time / weight, power / weight


def _population(
    entries: Sequence[PriorEntry], quantity: PriorQuantity, guess: Gaussian, mean_weight: float, spread_weight: float
) -> Gaussian:
    """Return mean and covariance of the networks behind the entries (expectation-maximisation).

    A coefficient that the modes of an entry did not determine (its spread is wide) has little weight; the guess counts
    as additional networks, in the mean and in the covariance.
    """
    if not entries:
        return guess
    values = np.array([quantity.coefficients(entry) for entry in entries])
    own = np.array([np.diag(np.square(quantity.spreads(entry))) for entry in entries])
    weight = np.array([e.weight for e in entries])
    mean, covariance = guess.mean, guess.covariance
    for _ in range(_EM_STEPS):
        gain = covariance @ np.linalg.inv(covariance + own)
        expected = mean + np.einsum("bij,bj->bi", gain, values - mean)
        left = covariance - gain @ covariance
        mean = (weight @ expected + mean_weight * guess.mean) / (weight.sum() + mean_weight)
        away = expected - mean
        scatter = np.einsum("b,bi,bj->ij", weight, away, away) + np.einsum("b,bij->ij", weight, left)
        covariance = (scatter + spread_weight * guess.covariance) / (weight.sum() + spread_weight)
        covariance = 0.5 * (covariance + covariance.T)
    return Gaussian(mean, covariance)


GENERIC = Prior("none", ())
