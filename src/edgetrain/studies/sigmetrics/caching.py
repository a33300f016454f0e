"""Take-aways 1, 2, 8 and 9 of SIGMETRICS 2023: caching and storage."""

from __future__ import annotations

from collections.abc import Iterator

from edgetrain.studies.data import (
    LARGE_BYTES,
    NOT_AGAIN_SHARE,
    PHASES,
    CampaignData,
    Family,
    fits_in_ram,
    read_again,
    reading_dominates,
)
from edgetrain.studies.judging import Case, Claim, at_least, at_most, change, within
from edgetrain.studies.needed import COLD_EPOCH, LATER_EPOCHS, STALL
from edgetrain.studies.repeated import COLD, LATER, RepeatedRuns
from edgetrain.studies.uncertain import Uncertain

# Of what the medium costs in the first epoch, at most this share may be left in later ones (AGX: nothing is left).
LEFT_SHARE = 0.25
# A first epoch has disk stalls when they are at least this share of an uncached epoch.
DISK_SHARE = 0.05
# Two media are alike within this share of an epoch on the faster one, a cold and a later epoch within this share of an
# uncached one (LeNet's cold epochs differ by 4 % between media).
ALIKE_SHARE = 0.1

_GAIN = "gained by caching, of an uncached epoch"
_RULE = "its page cache follows a fixed rule, and its media were taken from the same figures"


def _pairs(data: CampaignData, phase: str) -> Iterator[tuple[Family, str, RepeatedRuns, str, RepeatedRuns]]:
    """Yield the slowest and the fastest medium of each family that has both in this phase."""
    for family in data.families("medium"):
        media = [(medium, group) for medium, group in family.media() if group.get("stall", phase) is not None]
        if len(media) > 1:
            yield (family, *media[0], *media[-1])


def _uncached(group: RepeatedRuns) -> Uncertain | None:
    """Return the time of an uncached epoch: a later one, but with the stall of the cold one.

    The cold epoch itself also contains CUDA's start, and the paper prints only its stall for some settings.
    """
    cold, later, epoch = group.get("stall", COLD), group.get("stall"), group.get("e2e")
    return None if cold is None or later is None or epoch is None else epoch - later + cold


def _extra(slow: Uncertain, fast: Uncertain, epoch: Uncertain) -> Uncertain:
    """Return what the slow medium adds to the stall, as a share of an epoch on the fast one."""
    return (slow - fast) / epoch


def _ram_removes(data: CampaignData, case: Case) -> None:
    for group in data.groups:
        again, read = read_again(group), group.mean(lambda epoch: epoch.read_share, COLD)
        if fits_in_ram(group) and again is not None and read is not None and read > NOT_AGAIN_SHARE:
            bound = at_most("read again", again, NOT_AGAIN_SHARE)
            case.add(f"{data.label(group.conditions)}, dataset fits into RAM", [bound], of=[group])
    for family, slow_medium, slow, fast_medium, fast in _pairs(data, LATER):
        cold, later, clean = slow.get("stall", COLD), slow.get("stall"), fast.get("stall")
        uncached = _uncached(slow)
        if not fits_in_ram(slow) or cold is None or later is None or clean is None or uncached is None:
            continue
        disk = cold - clean
        if (disk / uncached).lo < DISK_SHARE:
            continue  # no disk stalls to remove
        bound = at_most(f"left of the disk stall against {fast_medium}", (later - clean) / disk, LEFT_SHARE)
        what = f"{family.label}, {slow_medium}, stall per minibatch, cold → later"
        case.add(what, [bound], change(cold, later), of=(slow, fast))


def _caching_useless(data: CampaignData, case: Case) -> None:
    light = too_large = False
    for group in data.groups:
        cold, later, uncached = group.get("stall", COLD), group.get("stall"), _uncached(group)
        reading, fits = reading_dominates(group), fits_in_ram(group)
        if cold is None or later is None or uncached is None or reading is None or not group.whole:
            continue
        if group.conditions.workers != 0 and (cold / uncached).lo < DISK_SHARE:
            continue  # workers hide what there is to gain, whatever caching does
        gain, numbers, label = (cold - later) / uncached, change(cold, later), data.label(group.conditions)
        if not reading:
            what = f"{label}, pre-processing dominates or the data is tiny; stall, cold → later"
            case.add(what, [within(_GAIN, gain, ALIKE_SHARE)], numbers, of=[group])
            light = True
        elif fits is False:
            what = f"{label}, does not fit into RAM; stall, cold → later"
            case.add(what, [at_most(_GAIN, gain, ALIKE_SHARE)], numbers, of=[group])
            too_large = True
        elif fits and group.conditions.workers == 0:
            what = f"{label}, reading dominates and fits into RAM; stall, cold → later"
            case.add(what, [at_least(_GAIN, gain, DISK_SHARE)], numbers, of=[group])
    stalls = "with 0 workers, or with a large stall in the cold epoch"
    case.require(light, f"a dataset that is tiny or needs mostly pre-processing, {stalls}")
    case.require(too_large, f"a dataset that does not fit into RAM, {stalls}")


def _storage_matters(data: CampaignData, case: Case) -> None:
    pressed = eased = False
    for family, slow_medium, slow, fast_medium, fast in _pairs(data, COLD):
        # With workers a cold medium may be hidden: whether it presses is seen without.
        slow_stall, fast_stall = slow.get("stall", COLD), fast.get("stall", COLD)
        epoch, reading = fast.get("e2e", COLD), reading_dominates(slow)
        if slow.conditions.workers != 0 or None in (slow_stall, fast_stall, epoch, reading):
            continue
        assert slow_stall is not None and fast_stall is not None and epoch is not None
        extra = _extra(slow_stall, fast_stall, epoch)
        name = f"{slow_medium} adds over {fast_medium}, of an epoch on {fast_medium}"
        bound = at_least(name, extra, ALIKE_SHARE) if reading else at_most(name, extra, ALIKE_SHARE)
        kind = "I/O pressure" if reading else "no I/O pressure"
        case.add(f"{family.label}, cold, {kind}; stall", [bound], change(fast_stall, slow_stall), of=(slow, fast))
        pressed, eased = pressed or bool(reading), eased or not reading
    eased |= _alike_when_warm(data, case, fewest_workers=0)
    case.require(pressed, "cold epochs with 0 workers of a large dataset on two media")
    case.require(eased, "epochs without I/O pressure on two media")


def _alike_when_warm(data: CampaignData, case: Case, fewest_workers: int, only_large: bool = False) -> bool:
    found = False
    for family, slow_medium, slow, fast_medium, fast in _pairs(data, LATER):
        slow_stall, fast_stall, epoch = slow.get("stall"), fast.get("stall"), fast.get("e2e")
        workers = slow.conditions.workers
        if not fits_in_ram(slow) or workers is None or workers < fewest_workers:
            continue
        if only_large and not (reading_dominates(slow) or _is_large(slow)):
            continue
        if slow_stall is None or fast_stall is None or epoch is None:
            continue
        extra = _extra(slow_stall, fast_stall, epoch)
        bound = at_most(f"{slow_medium} adds over {fast_medium}, of an epoch on {fast_medium}", extra, ALIKE_SHARE)
        what = f"{family.label}, {PHASES[LATER]}, cached; stall"
        case.add(what, [bound], change(fast_stall, slow_stall), of=(slow, fast))
        found = True
    return found


def _is_large(group: RepeatedRuns) -> bool:
    """Return whether reading the dataset takes a while on a slow medium, whatever else the epochs wait for."""
    size = group.runs[0].dataset_bytes
    return size is not None and size >= LARGE_BYTES


def _hidden(data: CampaignData, case: Case) -> None:
    _alike_when_warm(data, case, fewest_workers=1, only_large=True)


CLAIMS = (
    Claim(
        "1", "Enough free RAM to hold the dataset removes disk stalls after the first epoch",
        "AGX, MobileNet, HDD, 4 workers: 46.5 → 12.9 s of stall; 12.9 to 13.1 s on every medium",
        "two epochs, the first cold, of a dataset that fits into RAM, on two media or with bytes read",
        _ram_removes, (LATER_EPOCHS, COLD_EPOCH), simulated=_RULE,
    ),
    Claim(
        "2", "Caching does not help where pre-processing dominates, the data is tiny or does not fit into RAM",
        "AGX, HDD, 4 workers: LeNet 13.0 → 13.1 s, ResNet 12.1 → 12.3 s of stall, cold → later",
        "two epochs, the first cold, of a small dataset and of one that does not fit into RAM, with 0 workers",
        _caching_useless, (LATER_EPOCHS, COLD_EPOCH, STALL), simulated=_RULE,
    ),
    Claim(
        "8", "Faster storage matters only under I/O pressure, cold",
        "AGX, 0 workers, cold: MobileNet 306 s of stall on SSD, 741 s on HDD; LeNet 21.9 and 22.4 s",
        "cold epochs with 0 workers, and later ones, on two media",
        _storage_matters, (COLD_EPOCH, STALL), simulated=_RULE,
    ),
    Claim(
        "9", "Cache and pipeline together hide slow storage",
        "AGX, MobileNet, 4 workers: 297 to 298 s per epoch on every medium",
        "later epochs of a large, cached dataset with workers on two media",
        _hidden, (LATER_EPOCHS, STALL), simulated=_RULE,
    ),
)  # fmt: skip
