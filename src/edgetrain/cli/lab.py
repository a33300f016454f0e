"""`edgetrain lab`: this machine held down to a smaller one."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from edgetrain import lab as room
from edgetrain.cli.options import JsonOption
from edgetrain.errors import LabError, UsageError
from edgetrain.lab import cgroups, loop, needs, sessions
from edgetrain.lab.measure import TOLERANCE, Proof, measure
from edgetrain.lab.storage import forget_images, images_folder, missing
from edgetrain.report.document import emit
from edgetrain.report.text import console, plain_table
from edgetrain.schema import SCHEMA, Origin
from edgetrain.units import spell, spell_bytes

PANEL = "lab"
ORDER = 10

MediaOption = Annotated[
    str | None, typer.Option("--media", envvar="EDGETRAIN_MEDIA", help="YAML with storage media of your own.")
]


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(
        help="Hold this machine down to a smaller one: slow storage, little RAM, few and slow cores.\n\n"
        "Example: edgetrain lab up --storage sd --page-cache 2GB --dataset photos",
        no_args_is_help=True,
    )
    verbs.command("up")(up)
    verbs.command("down")(down)
    verbs.command("status")(status)
    verbs.command("measure")(measure_limits)
    app.add_typer(verbs, name="lab", rich_help_panel=PANEL)


def up(
    dataset: Annotated[Path | None, typer.Option(help="Folder to put on the slow medium.")] = None,
    storage: Annotated[str | None, typer.Option(help="Storage medium: ssd, sd, hdd, emmc or your own.")] = None,
    page_cache: Annotated[str | None, typer.Option(help="Page cache left, for example 2GB.")] = None,
    ram: Annotated[str | None, typer.Option(help="RAM of the machine stood for; see --network.")] = None,
    network: Annotated[str | None, typer.Option(help="What it trains: its memory is taken off --ram.")] = None,
    cores: Annotated[int | None, typer.Option(help="Cores to leave.")] = None,
    cpu_share: Annotated[float | None, typer.Option(help="Speed of a core, 0.5 is half of ours.")] = None,
    as_: Annotated[str | None, typer.Option("--as", help="Stand for a board: xavier-nx, xavier-agx, …")] = None,
    shrink: Annotated[float, typer.Option(help="Page cache of the board divided by this.")] = 1.0,
    media: MediaOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be set up, and stop.")] = False,
    json: JsonOption = False,
) -> None:
    """Hold the machine down until `lab down`, for programs of your own.

    Example: edgetrain lab up --storage hdd --page-cache 500MB --dataset photos
    """
    asked: dict[str, Any] = {
        "storage": storage, "page_cache": page_cache, "ram": ram, "cores": cores, "cpu_share": cpu_share,
        "media": media,
    }  # fmt: skip
    if as_ is not None:
        board = room.preset(as_)
        of_board: dict[str, Any] = {"storage": board.storage if dataset else None, "cores": board.cores}
        if ram is None:
            of_board["page_cache"] = int(board.cache_bytes / shrink)
        asked.update({name: value for name, value in of_board.items() if asked.get(name) is None})
    taken = needs.training_bytes(network or "", 16) if ram else 0
    limits = room.read_limits({name: value for name, value in asked.items() if value is not None}, taken)
    if not limits:
        raise UsageError("nothing to hold: give --storage, --page-cache, --ram, --cores, --cpu-share or --as")
    if limits.storage is not None and dataset is None:
        raise UsageError("a storage medium needs something on it: give --dataset FOLDER")
    if dataset is not None and not dataset.is_dir():
        raise UsageError(f"{dataset} is not a folder; --dataset names the folder to put on the medium")
    if dry_run:
        lacks = missing()
        emit({"schema": SCHEMA, "would_hold": limits.asked(), "missing": lacks, "cgroups": cgroups.find().version})
        return
    said = console(stderr=True)
    lab = limits.applied(workers=8, say=lambda text: said.print(text), held=True)
    lab.__enter__()
    try:
        where = lab.dataset_path(dataset) if dataset else None
    except BaseException:
        sessions.take_down(lab.session)
        raise
    document = {
        "schema": SCHEMA,
        "session": lab.session.id,
        "origin": Origin.EMULATED,
        "asked": limits.asked(),
        "got": lab.got,
        "doubts": lab.doubts,
        "dataset": where,
        "prefix": lab.command_prefix(),
        "environment": lab.environment(),
    }
    if json:
        emit(document)
        return
    _print_up(document)


def _print_up(document: dict[str, Any]) -> None:
    out = console()
    for name, held in document["got"].items():
        facts = ", ".join(f"{key} {value}" for key, value in held.items() if key != "by")
        out.print(f"{name}: {facts} — by {held['by']}")
    for doubt in document["doubts"]:
        out.print(f"doubt: {doubt}")
    if document["dataset"]:
        out.print(f"the dataset is at {document['dataset']}")
    words = [f"{name}={shlex.quote(value)}" for name, value in document["environment"].items()]
    line = " ".join(
        [*words, *(shlex.quote(word) for word in document["prefix"]), "edgetrain profile -- python train.py"]
    )
    out.print("to run in it:", highlight=False)
    out.print(line, soft_wrap=True, highlight=False)
    out.print("to end it: edgetrain lab down")


def down(
    images: Annotated[bool, typer.Option("--images", help="Also remove the disk images kept for next time.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed, and stop.")] = False,
    json: JsonOption = False,
) -> None:
    """Remove everything the lab set up here, also what a killed run left; nothing that is not the lab's.

    Example: edgetrain lab down
    """
    found = [_facts(session) for session in sessions.sessions()]
    groups = [str(path) for path in sessions.groups()]
    stayed: list[str] = []
    if not dry_run:
        for session in sessions.sessions():
            stayed += sessions.take_down(session)
        stayed += cgroups.remove_groups(sessions.groups())
        if images:
            forget_images(every=True)
    document = {"schema": SCHEMA, "removed": [] if dry_run else found, "would_remove": found if dry_run else [],
                "groups": groups, "stayed": stayed}  # fmt: skip
    if json:
        emit(document)
    else:
        verb = "would remove" if dry_run else "removed"
        names = ", ".join(str(one["session"]) for one in found) or "nothing: no session was up"
        console().print(f"{verb} {names}")
    if stayed:
        raise LabError(f"could not be removed: {'; '.join(stayed)}; run `sudo edgetrain lab down`")


def _facts(session: sessions.Session) -> dict[str, Any]:
    kept = session.read()
    return {
        "session": session.id,
        "leftover": session.is_leftover(),
        "held": bool(kept.get("held")),
        "owner": (kept.get("owner") or [None])[0],
        "mounts": sessions.mounts_under(session.folder),
        "loops": loop.backed_by(str(session.folder)),
        "servers": sessions.servers_of(session.folder),
        "got": kept.get("got"),
    }


def status(json: JsonOption = False) -> None:
    """What the lab holds down right now, what killed runs left, and which mechanisms this machine has.

    Example: edgetrain lab status
    """
    facts = [_facts(session) for session in sessions.sessions()]
    found = cgroups.find()
    lacks = missing()
    images = list(images_folder().glob("*.ext4")) if images_folder().is_dir() else []
    mechanisms = {
        "storage": "slow disk" if not lacks else "; ".join(lacks.values()),
        "cgroups": found.version,
        **{name: found.has(name) for name in cgroups.CONTROLLERS},
    }
    if json:
        emit({"schema": SCHEMA, "sessions": facts, "mechanisms": mechanisms,
              "images_bytes": sum(image.stat().st_size for image in images)})  # fmt: skip
        return
    out = console()
    for one in facts:
        kind = "leftover of a killed run" if one["leftover"] else ("held" if one["held"] else f"run {one['owner']}")
        held = ", ".join(one["got"] or {}) or "nothing yet"
        out.print(f"{one['session']}: {kind}; {held}; mounts {len(one['mounts'])}, loops {len(one['loops'])}")
    if not facts:
        out.print("the lab is down")
    out.print(f"storage: {mechanisms['storage']}; control groups: version {found.version}, "
              + ", ".join(name for name in cgroups.CONTROLLERS if found.has(name)))  # fmt: skip
    out.print(f"disk images kept: {len(images)} ({spell_bytes(sum(one.stat().st_size for one in images))})")


def measure_limits(
    storage: Annotated[list[str] | None, typer.Option(help="Medium to measure; repeat for several.")] = None,
    media: MediaOption = None,
    at: Annotated[str | None, typer.Option(help="Folder for the files read.")] = None,
    json: JsonOption = False,
) -> None:
    """Prove the limits: asked against got, for latency, bandwidth, readers at once, cacheable bytes and CPU.

    Exit status 1 when one is off by more than 15 %. Takes half a minute on a quiet machine; others' load shows.

    Example: edgetrain lab measure --storage sd
    """
    said = console(stderr=True)
    proofs = measure(storage or ("sd", "hdd", "ssd"), media, lambda text: said.print(text), at)
    if json:
        rows = [{**asdict(proof), "off": proof.off, "holds": proof.holds} for proof in proofs]
        emit({"schema": SCHEMA, "origin": Origin.MEASURED, "tolerance": TOLERANCE, "limits": rows})
    else:
        out = console()
        out.print(_table(proofs))
        for by in dict.fromkeys(proof.by for proof in proofs):
            out.print(f"{', '.join(dict.fromkeys(proof.limit for proof in proofs if proof.by == by))}: by {by}")
    broken = [f"{proof.limit} {proof.what}" for proof in proofs if proof.holds is False]
    if broken:
        raise LabError(
            f"{len(broken)} of {len(proofs)} limits are off by more than {TOLERANCE:.0%}: {'; '.join(broken)};"
            " check the machine's load and try again"
        )


def _table(proofs: list[Proof]) -> Any:
    table = plain_table("limit", "what", "asked", "got (measured)", "off", "within 15 %")
    for proof in proofs:
        verdict = {True: "yes", False: "NO", None: "not judged"}[proof.holds]
        off = "–" if proof.off is None else f"{proof.off:+.1%}"
        asked, got = spell(proof.asked, proof.unit), spell(proof.got, proof.unit)
        table.add_row(proof.limit, proof.what, asked, got, off, verdict)
    return table
