"""The right hardware: boards × storage × RAM ranked for a network, a dataset and a target, by what is known.

Nothing is guessed. An epoch's time is measured, published, scaled from a published one of another size or board
(`predicted`, with a range), or unknown. Storage adds what a cold read costs when the page cache cannot hold the
dataset: fetching overlaps training, so an epoch takes the longer of the two, and a medium is just enough when that is
the training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from edgetrain.errors import UsageError
from edgetrain.predict.base import Estimate
from edgetrain.recommend.fits import Fit
from edgetrain.recommend.published import Figure, Published
from edgetrain.schema import Origin, weakest
from edgetrain.units import spell, spell_seconds

RANKS = ("price", "time", "energy")
WORKERS = 4  # of every published figure


@dataclass(frozen=True, slots=True)
class Offer:
    """A board as it can be bought: one RAM size, the media it takes."""

    board: str
    title: str
    ram_bytes: int
    media: tuple[str, ...]
    price_usd: float | None
    peak_power_w: float | None
    fit: Fit | None = None  # None: the network's need is not known


@dataclass(frozen=True, slots=True)
class Medium:
    """What reading one file from cold costs, on its own and with others waiting."""

    name: str
    read_s: float
    bytes_per_s: float
    at_once: int
    gain: Mapping[int, float]
    source: str

    def epoch_s(self, files: float, file_bytes: float, readers: int) -> float:
        """Return how long reading so many files takes with so many readers."""
        queued = max(readers, 1)
        gain = max((factor for depth, factor in self.gain.items() if depth <= queued), default=1.0)
        positioning = self.read_s / (gain * min(queued, self.at_once))
        return files * (positioning + file_bytes / self.bytes_per_s)


@dataclass(frozen=True, slots=True)
class Target:
    """What is wanted. None: not limited."""

    network: str
    samples: int
    file_bytes: float | None  # mean size of one file; None: one file holds all (MNIST, CIFAR-10, text)
    epochs: int = 1
    deadline_s: float | None = None  # of the whole training
    max_energy_j: float | None = None  # of the whole training
    max_price_usd: float | None = None
    rank_by: str = "price"

    def __post_init__(self) -> None:
        if self.rank_by not in RANKS:
            raise UsageError(f"cannot rank by {self.rank_by!r}; choose one of {', '.join(RANKS)}")
        if self.epochs < 1 or self.samples < 1:
            raise UsageError(f"a training has at least one epoch and one sample, not {self.epochs} and {self.samples}")
        for name, value in (
            ("deadline", self.deadline_s),
            ("energy", self.max_energy_j),
            ("price", self.max_price_usd),
        ):
            if value is not None and not value > 0:
                raise UsageError(f"the limit on {name} must be above zero, not {value:g}")


@dataclass(frozen=True, slots=True)
class Option:
    """One board with one medium and one RAM size."""

    offer: Offer
    medium: str
    verdict: str  # meets | cannot say | fails
    epoch_s: Estimate | None  # warm
    cold_epoch_s: float | None  # the first
    total_s: Estimate | None
    energy_j: Estimate | None  # an epoch
    fetch_s: float | None  # reading a cold epoch
    hidden_warm: bool | None  # fetching is hidden by training in later epochs
    hidden_cold: bool | None  # and in the first
    cached_share: float | None
    just_enough: bool  # the slowest medium of this board whose fetching is hidden in later epochs
    fails: tuple[str, ...]
    unknown: tuple[str, ...]
    sources: tuple[str, ...]


def choose_device(
    target: Target,
    offers: Sequence[Offer],
    media: Mapping[str, Medium],
    figures: Sequence[Figure],
    published: Published,
) -> list[Option]:
    """Return every board × medium × RAM size, best first: what meets the target, what may, what does not."""
    if not offers:
        raise UsageError("there is no board to choose from")
    options: list[Option] = []
    for offer in offers:
        mine = [
            _option(
                target, offer, name, media.get(name), _epoch(target, offer.board, name, figures, published), published
            )
            for name in offer.media
        ]
        enough = [each for each in mine if each.hidden_warm and each.fetch_s is not None]
        slowest = max(enough, key=lambda each: each.fetch_s or 0.0, default=None)
        options += [replace(each, just_enough=each is slowest) for each in mine]
    order = {"meets": 0, "cannot say": 1, "fails": 2}
    value = _RANK[target.rank_by]
    return sorted(
        options,
        key=lambda each: (
            order[each.verdict],
            len(each.fails),
            len(each.unknown),
            _or_last(value(each)),
            each.fetch_s or 0.0,
        ),
    )


_RANK: dict[str, Callable[[Option], float | None]] = {
    "price": lambda option: option.offer.price_usd,
    "time": lambda option: None if option.total_s is None else option.total_s.value,
    "energy": lambda option: None if option.energy_j is None else option.energy_j.value,
}


def _or_last(value: float | None) -> float:
    return float("inf") if value is None else value


def _epoch(
    target: Target, board: str, medium: str, figures: Sequence[Figure], published: Published
) -> tuple[Estimate, Estimate | None, str] | None:
    """Return a warm epoch's time and energy on a board with the source; None where nobody measured it."""
    mine = [figure for figure in (*figures, *published.figures) if figure.network == target.network]
    here = [figure for figure in mine if figure.board == board]
    if here:
        # One's own measurement first, then one on this very medium; else the fastest, which storage held up least.
        best = min(
            here,
            key=lambda figure: (
                figure.origin is not Origin.MEASURED,
                figure.medium != medium,
                figure.epoch_s / figure.samples,
            ),
        )
        scale = target.samples / best.samples
        origin = best.origin if scale == 1 else Origin.PREDICTED
        said = best.source if scale == 1 else f"{best.source}, scaled from {best.samples} samples"
        energy = None if best.energy_j is None else _flat(best.energy_j * scale, origin)
        return _flat(best.epoch_s * scale, origin), energy, said
    for speed_up in published.speed_ups:
        there = [figure for figure in mine if figure.board == speed_up.over]
        if speed_up.board == board and there:
            base = min(figure.epoch_s / figure.samples for figure in there) * target.samples
            middle = base / (speed_up.least * speed_up.most) ** 0.5
            estimate = Estimate(middle, base / speed_up.most, base / speed_up.least, 0.9, Origin.PREDICTED)
            return (
                estimate,
                None,
                f"{there[0].source}, divided by {speed_up.least:g} to {speed_up.most:g} ({speed_up.source})",
            )
    return None


def _flat(value: float, origin: Origin) -> Estimate:
    return Estimate(value, value, value, 0.9, origin)


def _option(
    target: Target,
    offer: Offer,
    name: str,
    medium: Medium | None,
    known: tuple[Estimate, Estimate | None, str] | None,
    published: Published,
) -> Option:
    unknown: list[str] = []
    fails: list[str] = []
    sources = [] if known is None else [known[2]]
    cached = offer.fit.cached_share if offer.fit is not None else None
    if target.file_bytes is None:
        cached = 1.0  # one small file, read once
    fetch_s = _fetch_s(target, medium)
    train_s, energy = (None, None) if known is None else (known[0], known[1])
    if train_s is None:
        unknown.append(f"nobody published or measured {target.network} on {offer.title}")
    if fetch_s is None:
        unknown.append(f"what reading from {name} costs is not known")
    elif medium is not None:
        sources.append(medium.source)
    if cached is None:
        unknown.append("how much of the dataset the page cache could hold is not known")
    warm, cold = _with_storage(train_s, fetch_s, cached)
    total = None
    if warm is not None and cold is not None:
        later = target.epochs - 1
        total = replace(
            warm,
            value=cold.value + later * warm.value,
            lo=cold.lo + later * warm.lo,
            hi=cold.hi + later * warm.hi,
            origin=weakest([warm.origin, cold.origin]),
        )
    _judge_memory(target, offer, published, fails, unknown, sources)
    _judge(target, offer, total, energy, fails, unknown)
    verdict = "fails" if fails else "cannot say" if unknown else "meets"
    reads_later = None if fetch_s is None or cached is None else fetch_s * (1.0 - cached)
    return Option(
        offer, name, verdict, warm, None if cold is None else cold.value, total, energy, fetch_s,
        None if reads_later is None or train_s is None else reads_later <= train_s.value,
        None if fetch_s is None or train_s is None else fetch_s <= train_s.value,
        cached, False, tuple(fails), tuple(unknown), tuple(dict.fromkeys(sources)),
    )  # fmt: skip


def _fetch_s(target: Target, medium: Medium | None) -> float | None:
    if target.file_bytes is None:
        return 0.0
    return None if medium is None else medium.epoch_s(target.samples, target.file_bytes, WORKERS)


def _with_storage(
    train_s: Estimate | None, fetch_s: float | None, cached: float | None
) -> tuple[Estimate | None, Estimate | None]:
    """Return a warm epoch and the cold first one: the longer of training and of what must be read."""
    if train_s is None or fetch_s is None or cached is None:
        return train_s, None
    return _longer(train_s, fetch_s * (1.0 - cached)), _longer(train_s, fetch_s)


def _longer(train_s: Estimate, reads_s: float) -> Estimate:
    held_up = reads_s > train_s.value
    return replace(
        train_s,
        value=max(train_s.value, reads_s),
        lo=max(train_s.lo, reads_s),
        hi=max(train_s.hi, reads_s),
        origin=Origin.PREDICTED if held_up else train_s.origin,
    )


def _judge_memory(
    target: Target, offer: Offer, published: Published, fails: list[str], unknown: list[str], sources: list[str]
) -> None:
    said = published.said_about(target.network, offer.board)
    if said is not None:
        sources.append(said[1])
    if offer.fit is not None:
        if offer.fit.verdict == "does not fit":
            fails.append("the network does not fit into memory")
        elif offer.fit.verdict == "too close to call":
            unknown.append("whether the network fits into memory is too close to call")
        return
    if said is None:
        unknown.append("whether the network fits into memory is not known")
    elif not said[0]:
        fails.append("the paper could not train it on this board")


def _judge(
    target: Target, offer: Offer, total: Estimate | None, energy: Estimate | None, fails: list[str], unknown: list[str]
) -> None:
    if target.max_price_usd is not None:
        if offer.price_usd is None:
            unknown.append("the board's price is not known")
        elif offer.price_usd > target.max_price_usd:
            fails.append(f"costs {offer.price_usd:,.0f} USD, above {target.max_price_usd:,.0f}")
    if target.deadline_s is not None:
        if total is None:
            unknown.append("whether the deadline holds")
        elif total.lo > target.deadline_s:
            fails.append(f"takes {spell_seconds(total.lo)} or more, the deadline is {spell_seconds(target.deadline_s)}")
        elif total.hi > target.deadline_s:
            unknown.append(f"takes up to {spell_seconds(total.hi)}: whether the deadline holds")
    if target.max_energy_j is not None:
        spent = None if energy is None else energy.value * target.epochs
        if spent is None and total is not None and offer.peak_power_w is not None:
            # Without a measured power the peak rating bounds it from above: enough to pass, never to fail.
            most = total.hi * offer.peak_power_w
            if most > target.max_energy_j:
                unknown.append(
                    f"energy is at most {spell(most, 'J', 4)} by the board's peak rating: whether the limit holds"
                )
        elif spent is None:
            unknown.append("the energy of an epoch is not known")
        elif spent > target.max_energy_j:
            fails.append(f"takes {spell(spent, 'J', 4)}, the limit is {spell(target.max_energy_j, 'J', 4)}")
