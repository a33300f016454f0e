"""What other networks' fits say before a mode is profiled: coefficients and spread, each network apart.

A prior file holds, per network and board, the fitted coefficients of `physics` relative to the top mode and how far
its modes scattered around them; never a value at a mode. It becomes a Gaussian: the mean over networks, and their
scatter shrunk towards a wide generic guess, because a handful of networks does not show how different the next one
can be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from edgetrain.errors import UsageError
from edgetrain.predict.base import Array
from edgetrain.predict.modes.physics import POWER_NAMES, POWER_TERMS, TIME_NAMES, TIME_TERMS

FORMAT = "edgetrain-prior-1"
_ALIASES = {"mobilenet": "mobnet", "mobilenet_v3": "mobnet", "mobilenetv3": "mobnet", "resnet18": "resnet"}
SHIPPED = Path(__file__).parent.parent / "priors"

# A wide guess for any network on any board: logs of the share each term would have alone at the top mode,
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
SCALE_WIDTH = 3.0  # of the log of all times (or powers) together: any network, any unit
_MEAN_WEIGHT = 1.5  # the generic guess counts as this many networks in the mean
_SPREAD_WEIGHT = 2.0  # and as this many in the covariance
_BOARD_MEAN_WEIGHT = 0.1  # for one board's networks, all boards' together count as this many
_BOARD_SPREAD_WEIGHT = 0.4
_EM_STEPS = 20
_STEADY = -0.6  # log share of the steady term at the top mode in the kind of network that it rules
_SCATTER_GUESS = (0.012, 0.012)  # of time and power, where nothing is known


@dataclass(frozen=True, slots=True)
class Entry:
    """One network on one board: its coefficients relative to the top mode, and the scatter around them."""

    network: str
    board: str
    kind: str  # train | infer
    time: tuple[float, ...]
    power: tuple[float, ...]
    time_spread: tuple[float, ...]  # how well the modes fixed each coefficient, as a standard deviation
    power_spread: tuple[float, ...]
    time_scatter: float  # scale of the residuals around the full fit where the accelerator rules, as Student's t
    power_scatter: float
    modes: int
    batch_size: float | None = None
    weight: float = 1.0
    source: str = ""


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Mean and covariance of a coefficient vector."""

    mean: Array
    covariance: Array


@dataclass(frozen=True, slots=True)
class Quantity:
    """Time or power: what its coefficients are and what we guess of them before anything is known."""

    name: str
    terms: int
    guess: list[float]
    width: list[float]
    steady: tuple[int, int] | None = None  # the term that no clock moves, and the one it is most easily mistaken for

    def freed(self, gaussian: Gaussian) -> Gaussian:
        """Return the Gaussian with the common scale of the terms left open."""
        shift = np.zeros(len(gaussian.mean))
        shift[: self.terms] = SCALE_WIDTH
        return replace(gaussian, covariance=gaussian.covariance + np.outer(shift, shift))


TIME = Quantity("time", TIME_TERMS, _TIME_GUESS, _TIME_WIDTH, steady=(3, 2))
POWER = Quantity("power", POWER_TERMS, _POWER_GUESS, _POWER_WIDTH)


@dataclass(frozen=True, slots=True)
class Prior:
    """Entries, and the Gaussians they make."""

    name: str
    entries: tuple[Entry, ...]
    provenance: str = ""

    @property
    def held(self) -> list[str]:
        """Return `network on board (kind)` of everything inside, once each."""
        return list(dict.fromkeys(f"{e.network} on {e.board} ({e.kind})" for e in self.entries))

    def without(self, names: Iterable[str]) -> Prior:
        """Leave out networks (`resnet`), boards (`orin-nano`) or one of both (`resnet@orin-nano`)."""
        entries = self.entries
        for name in names:
            network, _, board = name.partition("@")
            left = tuple(
                e
                for e in entries
                if not (
                    (network in (e.network, e.board) and not board) or (network in (e.network, "") and board == e.board)
                )
            )
            entries = left
        return replace(self, entries=entries)

    def time(self) -> Gaussian:
        """Return what all the entries together say of a network's time."""
        return self._about(TIME)[0]

    def power(self) -> Gaussian:
        """Return what all the entries together say of a network's power."""
        return self._about(POWER)[0]

    def times(self) -> list[Gaussian]:
        """Return what is said of a network's time: by all entries first, then by each board, training or inferring."""
        return self._about(TIME)

    def powers(self) -> list[Gaussian]:
        """Return the same for power: the static part belongs to the board more than to the network."""
        return self._about(POWER)

    def _about(self, quantity: Quantity) -> list[Gaussian]:
        generic = Gaussian(np.array(quantity.guess, dtype=float), np.diag(np.square(quantity.width)))
        whole = _population(self.entries, quantity, generic, _MEAN_WEIGHT, _SPREAD_WEIGHT)
        found = [whole]
        for own in self._groups():
            found.append(_population(own, quantity, whole, _BOARD_MEAN_WEIGHT, _BOARD_SPREAD_WEIGHT))
        if quantity.steady is not None:
            found.append(_steady(whole, *quantity.steady))
        return [quantity.freed(gaussian) for gaussian in found]

    def scatter(self, which: int = 0) -> tuple[float, float]:
        """Return the typical scatter of time and of power around the physics, for one of `times()`."""
        if not self.entries:
            return _SCATTER_GUESS
        time, power = _scatter(self.entries, _SCATTER_GUESS, 0.0)
        groups = self._groups()
        if 0 < which <= len(groups):
            # A group of one network does not know how other networks scatter on its board.
            time, power = _scatter(groups[which - 1], (time, power), 1.0)
        return time, power

    def _groups(self) -> list[list[Entry]]:
        """Return the entries by board and kind, if there is more than one such group."""
        groups = list(dict.fromkeys((e.board, e.kind) for e in self.entries))
        if len(groups) < 2:
            return []
        return [[e for e in self.entries if (e.board, e.kind) == group] for group in groups]


def _steady(whole: Gaussian, constant: int, mistaken: int) -> Gaussian:
    """Return the population of networks that spend most of a minibatch on what no clock moves.

    None of the networks we learned from is of this kind, but VGG-11 on AGX Xavier is (its 133 million weights are
    updated after every minibatch of 16): without it such a network is taken for one that the host rules.
    """
    mean, covariance = whole.mean.copy(), whole.covariance.copy()
    for term, height, width in ((constant, _STEADY, 0.4), (mistaken, _STEADY - 1.7, 1.0)):
        mean[term] = height
        covariance[term, :] = covariance[:, term] = 0.0
        covariance[term, term] = width**2
    return Gaussian(mean, covariance)


def _scatter(entries: Sequence[Entry], guess: tuple[float, float], guess_weight: float) -> tuple[float, float]:
    weight = sum(e.weight for e in entries) + guess_weight
    time = sum(e.weight * e.time_scatter for e in entries) + guess_weight * guess[0]
    power = sum(e.weight * e.power_scatter for e in entries) + guess_weight * guess[1]
    return time / weight, power / weight


def _population(
    entries: Sequence[Entry], quantity: Quantity, guess: Gaussian, mean_weight: float, spread_weight: float
) -> Gaussian:
    """Return mean and covariance of the networks behind the entries (expectation-maximisation).

    A coefficient that an entry's modes did not fix (its spread is wide) counts as little as it should; the guess
    counts as some networks more, in mean and in covariance.
    """
    if not entries:
        return guess
    values = np.array([getattr(e, quantity.name) for e in entries])
    own = np.array([np.diag(np.square(getattr(e, f"{quantity.name}_spread"))) for e in entries])
    weight = np.array([e.weight for e in entries])
    mean, covariance = guess.mean, guess.covariance
    for _ in range(_EM_STEPS):
        gain = covariance @ np.linalg.inv(covariance + own)
        believed = mean + np.einsum("bij,bj->bi", gain, values - mean)
        left = covariance - gain @ covariance
        mean = (weight @ believed + mean_weight * guess.mean) / (weight.sum() + mean_weight)
        away = believed - mean
        scatter = np.einsum("b,bi,bj->ij", weight, away, away) + np.einsum("b,bij->ij", weight, left)
        covariance = (scatter + spread_weight * guess.covariance) / (weight.sum() + spread_weight)
        covariance = 0.5 * (covariance + covariance.T)
    return Gaussian(mean, covariance)


GENERIC = Prior("none", ())


def shipped() -> list[str]:
    """Return the names of the priors that ship."""
    return sorted(path.stem for path in SHIPPED.glob("*.json"))


def load_prior(name: str = "orin", without: Iterable[str] = ()) -> Prior:
    """Load a prior: `none`, one that ships (`orin`), or a file."""
    if name == "none":
        return GENERIC
    path = SHIPPED / f"{name}.json"
    if not path.exists():
        path = Path(name)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        known = ", ".join(["none", *shipped()])
        raise UsageError(f"cannot read the prior {name!r}: {error}; shipped are: {known}") from error
    if document.get("schema") != FORMAT:
        raise UsageError(f"{path} says schema {document.get('schema')!r}; this version reads {FORMAT}")
    try:
        entries = tuple(
            Entry(
                **{
                    **entry,
                    "time": tuple(float(entry["time"][n]) for n in TIME_NAMES),
                    "power": tuple(float(entry["power"][n]) for n in POWER_NAMES),
                    "time_spread": tuple(float(entry["time_spread"][n]) for n in TIME_NAMES),
                    "power_spread": tuple(float(entry["power_spread"][n]) for n in POWER_NAMES),
                }
            )
            for entry in document["entries"]
        )
    except (KeyError, TypeError) as error:
        raise UsageError(f"{path} is no complete prior: {error}") from error
    return Prior(str(document.get("name", path.stem)), entries, str(document.get("provenance", ""))).without(without)


def dump_prior(prior: Prior) -> str:
    """Return the prior as versioned text."""
    entries = []
    for entry in prior.entries:
        fields = asdict(entry)
        for key, names in (("time", TIME_NAMES), ("power", POWER_NAMES)):
            for field in (key, f"{key}_spread"):
                fields[field] = {n: round(v, 4) for n, v in zip(names, fields[field], strict=True)}
        entries.append(fields)
    document = {"schema": FORMAT, "name": prior.name, "provenance": prior.provenance, "entries": entries}
    return json.dumps(document, indent=1) + "\n"
