"""How much runs of one setting differ over time, between units and between software versions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgetrain import analysis
from edgetrain.analysis import UnitRun, VariabilityReport, read_unit_table, summarize, unit_run
from edgetrain.api.drawing import FORMATS, FiguresWritten
from edgetrain.api.records import StoreLike, open_run, open_store
from edgetrain.api.reports import campaign_runs
from edgetrain.errors import EdgetrainError, UsageError
from edgetrain.record import FolderStore, Run
from edgetrain.report import variability_figures, write_figures

MAX_DETECT = 0.9


def variability(
    chosen: Sequence[Run | str | Path] | str | Path, detect: float = 0.01, store: StoreLike = None
) -> VariabilityReport:
    """Return the coefficients of variation of time and energy, setting by setting, with 90 % intervals.

    `chosen` names campaigns, runs, or CSV tables with one row per measurement (columns unit, time_ms, …); `detect` is
    the difference, as a share, that sample sizes are given for. Runs that failed are listed in `left_out`.
    """
    if not 0 < detect <= MAX_DETECT:
        raise UsageError(f"the difference to detect must be above 0 and at most 90 %, not {100 * detect:g} %")
    names = [chosen] if isinstance(chosen, (str, Path)) else list(chosen)
    if not names:
        raise UsageError("which runs? name a campaign, or several runs")
    place = open_store(store)
    runs: list[UnitRun] = []
    left_out: list[str] = []
    for name in names:
        if isinstance(name, (str, Path)) and Path(name).suffix.lower() == ".csv" and Path(name).is_file():
            runs += read_unit_table(Path(name))
        else:
            _add_runs(name, place, runs, left_out)
    source = ", ".join(name.id if isinstance(name, Run) else str(name) for name in names[:3])
    report = analysis.variability(runs, source + (" …" if len(names) > 3 else ""), detect)
    if not report.settings:
        why = "; ".join((*left_out, *report.left_out)[:3])
        raise UsageError(
            f"{source}: no setting was run more than once ({why}); repeat it: `repeats: 3` in the plan, on every unit"
        )
    return VariabilityReport(report.source, report.level, report.settings, (*left_out, *report.left_out))


def _add_runs(name: Run | str | Path, place: FolderStore, runs: list[UnitRun], left_out: list[str]) -> None:
    if isinstance(name, Run):
        opened = [name]
    else:
        opened = []
        for found in campaign_runs(str(name), place) or [str(name)]:
            try:
                opened.append(open_run(found, place))
            except UsageError:
                raise
            except EdgetrainError as error:
                if found == str(name):
                    raise
                left_out.append(f"{found}: {error}")
    for run in opened:
        summary = summarize(run)
        if summary.state not in ("finished", "unknown"):
            left_out.append(f"{run.id}: {summary.state}")
        else:
            runs.append(unit_run(run, summary))


def draw_variability(
    report: VariabilityReport, folder: Path | str, formats: Sequence[str] = ("svg", "png")
) -> FiguresWritten:
    """Draw where units lie, what varies most and the drift, each with a CSV of what it shows."""
    unknown = [form for form in formats if form not in FORMATS]
    if unknown:
        raise UsageError(f"there is no format {unknown[0]!r}; known: {', '.join(FORMATS)}")
    found = variability_figures(report)
    target = Path(folder)
    try:
        files = write_figures(found, target, formats)
    except OSError as error:
        raise UsageError(f"cannot write into {target} ({error.strerror}); choose another folder") from error
    return FiguresWritten(str(target), tuple(one.name for one in found), tuple(file.name for file in files))
