"""Ranks boards × storage × RAM for a network, a dataset and a target, by what is known.

Nothing is guessed. The time of an epoch is measured, published, scaled from a published one of another size or board
(`predicted`, with a range), or unknown. Storage matters when the page cache cannot hold the dataset: fetching overlaps
with training, so an epoch takes the longer of the two, and a medium is just enough when training is the longer one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from edgetrain.errors import UsageError
from edgetrain.recommendation.hardware import (
    WORKERS,
    BoardOffer,
    DeviceRanking,
    HardwareOption,
    MediumCost,
    TrainingTarget,
)
from edgetrain.recommendation.published import EpochFigure, Published
from edgetrain.schema import Estimate, Origin, weakest
from edgetrain.units import spell, spell_seconds


def rank_devices(
    target: TrainingTarget,
    offers: Sequence[BoardOffer],
    media: Mapping[str, MediumCost],
    figures: Sequence[EpochFigure],
    published: Published,
    notes: tuple[str, ...] = (),
) -> DeviceRanking:
    """Return every board × medium × RAM size: first those that meet the target, then those that may."""
    if not offers:
        raise UsageError("there is no board to choose from")
    options: list[HardwareOption] = []
    for offer in offers:
        mine = [
            _option(
                target, offer, name, media.get(name), _epoch(target, offer.board, name, figures, published), published
            )
            for name in offer.media
        ]
        enough = [each for each in mine if each.fetch_hidden and each.fetch_s is not None]
        slowest = max(enough, key=lambda each: each.fetch_s or 0.0, default=None)
        options += [replace(each, just_enough=each is slowest) for each in mine]
    order = {"meets": 0, "cannot say": 1, "fails": 2}
    value = _RANK[target.rank_by]
    ranked = sorted(
        options,
        key=lambda each: (
            order[each.verdict],
            len(each.fails),
            len(each.unknown),
            _or_last(value(each)),
            each.fetch_s or 0.0,
        ),
    )
    return DeviceRanking(
        target.network,
        target.samples,
        target.file_bytes,
        target.epochs,
        target.deadline_s,
        target.max_energy_j,
        target.max_price_usd,
        target.rank_by,
        WORKERS,
        notes,
        tuple(ranked),
    )


_RANK: dict[str, Callable[[HardwareOption], float | None]] = {
    "price": lambda option: option.price_usd,
    "time": lambda option: None if option.total_s is None else option.total_s.value,
    "energy": lambda option: None if option.epoch_energy_j is None else option.epoch_energy_j.value,
}


def _or_last(value: float | None) -> float:
    return float("inf") if value is None else value


def _epoch(
    target: TrainingTarget, board: str, medium: str, figures: Sequence[EpochFigure], published: Published
) -> tuple[Estimate, Estimate | None, str] | None:
    """Return time and energy of a warm epoch on a board with the source; None where they are not known."""
    mine = [figure for figure in (*figures, *published.figures) if figure.network == target.network]
    here = [figure for figure in mine if figure.board == board]
    if here:
        # Measured figures first, then those on this medium, then the fastest, which storage slowed down least.
        best = min(
            here,
            key=lambda figure: (
                figure.origin is not Origin.MEASURED,
                figure.medium != medium,
                figure.epoch_s / figure.samples,
            ),
        )
        scale = target.samples / best.samples
        # A figure measured on another medium is not this one's: with its fetching hidden it predicts the same time.
        elsewhere = best.medium is not None and best.medium != medium
        origin = best.origin if scale == 1 and not elsewhere else Origin.PREDICTED
        source = best.source if scale == 1 else f"{best.source}, scaled from {best.samples} samples"
        energy = None if best.energy_j is None else _exact(best.energy_j * scale, "J", origin)
        return _exact(best.epoch_s * scale, "s", origin), energy, source
    for speed_up in published.speed_ups:
        there = [figure for figure in mine if figure.board == speed_up.over]
        if speed_up.board == board and there:
            base = min(figure.epoch_s / figure.samples for figure in there) * target.samples
            middle = base / (speed_up.least * speed_up.most) ** 0.5
            estimate = Estimate(middle, base / speed_up.most, base / speed_up.least, "s", Origin.PREDICTED)
            return (
                estimate,
                None,
                f"{there[0].source}, divided by {speed_up.least:g} to {speed_up.most:g} ({speed_up.source})",
            )
    return None


def _exact(value: float, unit: str, origin: Origin) -> Estimate:
    return Estimate(value, value, value, unit, origin)


def _option(
    target: TrainingTarget,
    offer: BoardOffer,
    name: str,
    medium: MediumCost | None,
    known: tuple[Estimate, Estimate | None, str] | None,
    published: Published,
) -> HardwareOption:
    unknown: list[str] = []
    fails: list[str] = []
    sources = [] if known is None else [known[2]]
    cached = offer.fit.cached_share if offer.fit is not None else None
    if target.file_bytes is None:
        cached = 1.0  # one small file, read once
    fetch_s = _fetch_s(target, medium)
    train_s, energy = (None, None) if known is None else (known[0], known[1])
    if train_s is None:
        unknown.append(f"there is no published or measured figure of {target.network} on {offer.title}")
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
    return HardwareOption(
        board=offer.board,
        title=offer.title,
        ram_bytes=offer.ram_bytes,
        medium=name,
        price_usd=offer.price_usd,
        verdict=verdict,
        fits=None if offer.fit is None else offer.fit.verdict,
        epoch_s=warm,
        cold_epoch_s=None if cold is None else cold.value,
        total_s=total,
        epoch_energy_j=energy,
        fetch_s=fetch_s,
        fetch_hidden=None if reads_later is None or train_s is None else reads_later <= train_s.value,
        fetch_hidden_cold=None if fetch_s is None or train_s is None else fetch_s <= train_s.value,
        cached_share=cached,
        just_enough=False,
        fails=tuple(fails),
        unknown=tuple(unknown),
        sources=tuple(dict.fromkeys(sources)),
    )


def _fetch_s(target: TrainingTarget, medium: MediumCost | None) -> float | None:
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
    slowed_down = reads_s > train_s.value
    return replace(
        train_s,
        value=max(train_s.value, reads_s),
        lo=max(train_s.lo, reads_s),
        hi=max(train_s.hi, reads_s),
        origin=Origin.PREDICTED if slowed_down else train_s.origin,
    )


def _judge_memory(
    target: TrainingTarget,
    offer: BoardOffer,
    published: Published,
    fails: list[str],
    unknown: list[str],
    sources: list[str],
) -> None:
    stated = published.trainable(target.network, offer.board)
    if stated is not None:
        sources.append(stated[1])
    if offer.fit is not None:
        if offer.fit.verdict == "does not fit":
            fails.append("the network does not fit into memory")
        elif offer.fit.verdict == "too close to call":
            unknown.append("whether the network fits into memory is too close to call")
        return
    if stated is None:
        unknown.append("whether the network fits into memory is not known")
    elif not stated[0]:
        fails.append("the paper could not train it on this board")


def _judge(
    target: TrainingTarget,
    offer: BoardOffer,
    total: Estimate | None,
    energy: Estimate | None,
    fails: list[str],
    unknown: list[str],
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
            # Without a measured power the peak rating is an upper bound: enough to pass, never to fail.
            most = total.hi * offer.peak_power_w
            if most > target.max_energy_j:
                unknown.append(
                    f"energy is at most {spell(most, 'J', 4)} by the board's peak rating: whether the limit holds"
                )
        elif spent is None:
            unknown.append("the energy of an epoch is not known")
        elif spent > target.max_energy_j:
            fails.append(f"takes {spell(spent, 'J', 4)}, the limit is {spell(target.max_energy_j, 'J', 4)}")
