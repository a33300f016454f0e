"""What a person reads of a diagnosis: the verdict, its evidence, and the remedies."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from edgetrain.recommendation import Diagnosis, Remedy, VerifiedRemedy
from edgetrain.report.text import plain_table
from edgetrain.units import spell_gain_pct, spell_interval, spell_seconds

MIN_SHARE = 0.005  # of the time: below, a cause is not shown
SMALL_GAIN_PCT = 1.0

MEANING = {
    "storage cold": "the first reading of the dataset waits for the storage medium; then the page cache serves it",
    "storage always": "every epoch waits for the storage medium: the page cache does not hold the dataset",
    "waiting elsewhere": "the loader waits and reads nothing meanwhile: a network, a lock, a server",
    "pre-processing": "the loop waits for the loader's CPU work",
    "CPU contention": "the loader is ready to run and has no core",
    "hand-over": "minibatches are made, but moving them to the loop takes long, or workers are being started",
    "copy": "bringing minibatches to the accelerator takes long",
    "launch": "the host issues kernels more slowly than the accelerator runs them",
    "loop": "the training loop itself does other work between minibatches",
    "compute": "the step itself; loading costs little",
    "nothing to gain": "the step takes the time, and no known remedy gains 3 % or more",
    "unknown": "what limits the training is not known",
}


def show_diagnosis(diagnosis: Diagnosis) -> RenderableType:
    """Return a diagnosis for the terminal."""
    lines: list[RenderableType] = [Text.from_markup(f"[bold]{diagnosis.run}[/]\n")]
    for cause in diagnosis.verdict.split(" + "):
        meaning = diagnosis.verdict_reason or MEANING.get(cause, "")
        lines.append(Text.assemble((cause, "bold red"), f": {meaning}"))
    shares = sorted(diagnosis.shares.items(), key=lambda pair: -pair[1])
    spelled = ", ".join(f"{cause} {share:.0%}" for cause, share in shares if share >= MIN_SHARE)
    lines.append(Text(f"share of the time: {spelled}\n"))
    lines += [Text(f"  · {each.text}") for each in diagnosis.evidence]
    lines.append(Text(""))
    lines.append(_remedies(diagnosis))
    assumed = dict.fromkeys(text for each in diagnosis.remedies for text in each.assumed)
    lines += [Text(f"assumed: {text}", style="yellow") for text in assumed]
    lines += [Text(f"note: {text}", style="yellow") for text in diagnosis.notes]
    if diagnosis.verified is not None:
        lines.append(_verified(diagnosis.verified))
    lines += [Text(f"doubt about the run: {doubt.text}", style="yellow") for doubt in diagnosis.doubts]
    return Group(*lines)


def _remedies(diagnosis: Diagnosis) -> RenderableType:
    if diagnosis.remedies_reason is not None:
        return Text(f"remedies cannot be predicted: {diagnosis.remedies_reason}", style="yellow")
    if not diagnosis.remedies:
        return Text("no remedy is known")
    table = plain_table("remedy", f"predicted, now {spell_seconds(diagnosis.recorded_s)}", "gain", "cost or risk")
    table.columns[0].no_wrap = table.columns[3].no_wrap = False
    table.columns[3].justify = "left"
    for each in diagnosis.remedies:
        gain = spell_gain(each, diagnosis)
        table.add_row(each.change, spell_interval(each.e2e_s, each.e2e_lo, each.e2e_hi), gain, each.cost)
    return table


def spell_gain(remedy: Remedy, diagnosis: Diagnosis) -> str:
    """Spell a remedy's gain; of one that is assumed, not predicted, the whole interval."""
    if not remedy.predicted:
        least, most = diagnosis.gain_bounds_pct(remedy)
        return f"{least:+.0f} to {most:+.0f} %: assumed"
    if abs(remedy.gain_pct) < SMALL_GAIN_PCT:
        return f"{spell_gain_pct(remedy.gain_pct, 1)}: no effect"
    slower = ": slower" if remedy.gain_pct < 0 else ""
    return f"{spell_gain_pct(remedy.gain_pct)}{slower}"


def _verified(tried: VerifiedRemedy) -> Text:
    """Spell what was tried; where the machine is not as fast as when it was recorded, gains are compared."""
    inside = "inside" if tried.held else "outside"
    before = "" if tried.before_s is None else f" ({spell_seconds(tried.before_s)} without it)"
    bounds = ""
    if tried.gain_lo_pct is not None and tried.gain_hi_pct is not None:
        bounds = f", 90 % interval {tried.gain_lo_pct:+.0f} to {tried.gain_hi_pct:+.0f} %"
    gain, slowdown, predicted = f"{spell_gain_pct(tried.gain_pct)}{bounds}", tried.slowdown, tried.predicted_gain_pct
    if slowdown == 1.0 or predicted is None:
        return Text(
            f"\ntried {tried.change}, time per {tried.per}: predicted "
            f"{spell_interval(tried.predicted_s, tried.predicted_lo, tried.predicted_hi)}, measured "
            f"{spell_seconds(tried.measured_s)}{before}, {inside} the interval; gain {gain} ({tried.run})"
        )
    changed = f"{slowdown:.2g} times slower" if slowdown > 1.0 else f"{1.0 / slowdown:.2g} times faster"
    value, least, most = (f"{each:+.0f}" for each in predicted)
    return Text(
        f"\ntried {tried.change}, time per {tried.per}: measured {spell_seconds(tried.measured_s)}{before}; without it "
        f"the run was recorded at {spell_seconds(tried.recorded_s)}, so the machine is {changed} now than then, and "
        f"gains are compared: predicted {value} % (90 % interval {least} to {most} %), measured {gain}; the "
        f"measured gain is {inside} the predicted interval ({tried.run})"
    )
