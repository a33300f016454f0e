"""Profiled modes from a CSV, a campaign of the store, an imported table, measurements, or a table in memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from edgetrain.analysis import summarize
from edgetrain.api.boards import power_range
from edgetrain.api.records import StoreLike, campaign_ids, open_store
from edgetrain.errors import UsageError
from edgetrain.prediction import ModeTable, read_table
from edgetrain.recommendation import ProfiledModes
from edgetrain.record import read_table as read_campaign_table
from edgetrain.record import tables as campaign_tables
from edgetrain.schema import ModeMeasurement

ProfiledSource = str | Path | ModeTable | Sequence[ModeMeasurement]


def read_profiled(profiled: ProfiledSource, store: StoreLike = None, board: str | None = None) -> ProfiledModes:
    """Return profiled modes; `board` is the one they are used for, whose powers a table is checked against."""
    if isinstance(profiled, ModeTable):
        return ProfiledModes.of_table(f"{len(profiled)} given modes", profiled)
    if not isinstance(profiled, (str, Path)):
        return ProfiledModes.of_measurements(f"{len(profiled)} given measurements", profiled)
    if not str(profiled).strip():
        raise UsageError("which modes were profiled? give a CSV, or the name or id of a campaign")
    power = power_range(board)
    path, name = Path(profiled), str(profiled)
    if path.is_file():
        return ProfiledModes.of_table(name, read_table(path, need_results=True, power=power))
    place = open_store(store)
    campaign = name
    if not (path / "modes.csv").is_file():
        rows = [row for row in place.runs() if row.campaign]
        tables = [about.campaign for about in campaign_tables(place)]
        known = [*(row.campaign for row in rows), *tables]
        campaign = find_campaign(name, [each for each in known if each], str(place.path))
        runs = [row.run for row in rows if row.campaign == campaign]
        if runs:
            return ProfiledModes.of_runs(campaign, [summarize(place.open(run)) for run in runs])
    table = read_campaign_table(place, campaign)
    return ProfiledModes.of_table(name, read_table(table.modes_csv, True, power), table.about.origin)


def find_campaign(name: str, ids: Iterable[str], store: str) -> str:
    """Return the id of the campaign meant by its id, by the name in its plan, or by the start of its id.

    The id of a campaign is the name in its plan, with other characters than letters, digits, `_` and `.` replaced,
    followed by a hash of the plan; that of an imported table is the name of its file and a random suffix.
    """
    known = list(dict.fromkeys(ids))
    stem = re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-.") or name
    hits = sorted(campaign_ids(name, set(known)))
    hits = hits or [each for each in known if re.fullmatch(re.escape(stem) + r"-[0-9a-f]{4}", each)]
    hits = hits or [each for each in known if each.startswith((name, stem))]
    if len(hits) == 1:
        return hits[0]
    listed = ", ".join((hits or known)[:6]) or "none yet"
    if hits:
        raise UsageError(f"{name!r} fits {len(hits)} campaigns in {store}: {listed}; give more of the id")
    raise UsageError(f"{name!r} is neither a CSV file nor a campaign in {store}; campaigns there: {listed}")
