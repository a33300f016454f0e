"""Checks the boards of a fleet before a campaign: versions, clocks, space, permissions, keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgetrain.fleet.agent import ProcessName, package_versions
from edgetrain.fleet.certificates import days_left, key_problems, renewal
from edgetrain.fleet.hosts import TimedFacts
from edgetrain.fleet.inventory import FleetBoard
from edgetrain.fleet.processes import CONTROLLER, SCHEDULER, Fleet
from edgetrain.fleet.supervisor import KEPT
from edgetrain.flower_versions import mixed_transports, version_problem
from edgetrain.schema import FleetCheck, FleetDoctor, FleetRow, FleetStatus

MIN_BYTES = 1 << 30  # a board with less free space is named
MIN_DAYS = 14.0  # a certificate that ends sooner is named
MAX_SKEW_S = 2.0  # clocks that differ by more, beyond the uncertainty, mislabel runs and can make certificates invalid
NEEDED = ("dask", "distributed")  # on every board; cryptography is needed where certificates are made: here


def check_fleet(fleet: Fleet) -> FleetDoctor:
    """Ask every board for its facts and name what is wrong; changes nothing."""
    here = package_versions()
    answers, problems = fleet.each(
        fleet.inventory.boards,
        lambda one: fleet.host_of(one).facts(
            ProcessName(fleet.home_of(one), one.name, one.device, {} if one.simulated else one.storage)
        ),
    )
    checks = tuple(
        judge(one, answers[one.name], here) if one.name in answers else unreachable(one, problems[one.name])
        for one in fleet.inventory.boards
    )
    return FleetDoctor(fleet.inventory.name, here, checks, tuple(problems_here(fleet, here, checks)))


def problems_here(fleet: Fleet, here: Mapping[str, str | None], checks: Sequence[FleetCheck]) -> list[str]:
    """Return what is wrong with this machine, and with what the boards have in common."""
    missing = [name for name in (*NEEDED, "cryptography") if here.get(name) is None]
    problems = []
    if missing:
        problems.append(f"{', '.join(missing)} not installed here; pip install 'edgetrain[fleet]'")
    listen = fleet.listen_problem()
    if listen is not None:
        problems.append(listen)
    folder = fleet.home / "tls"
    problems += key_problems(folder)
    if here.get("cryptography") is not None:
        for name in ("ca", CONTROLLER, SCHEDULER):
            path = folder / f"{name}.pem"
            ending = spell_ending(days_left(path.read_bytes())) if path.exists() else None
            if ending is not None:
                problems.append(f"the certificate {path} {ending}; {renewal(folder)}")
    flower = {check.name: check.versions["flwr"] for check in checks if check.versions.get("flwr")}
    mixed = mixed_transports({name: version for name, version in flower.items() if version is not None})
    if mixed is not None:
        problems.append(mixed)
    return problems


def spell_ending(days: float) -> str | None:
    """Spell that a certificate ends soon or has ended; None where neither holds."""
    if days >= MIN_DAYS:
        return None
    return "has expired" if days <= 0 else f"ends in {days:.0f} days"


def unreachable(board: FleetBoard, problem: str) -> FleetCheck:
    """Return the row of a board whose machine gave no facts."""
    return FleetCheck(
        board.name, board.board, board.address, board.user, None, None, {}, None, None, None, None, None, (problem,)
    )


def judge(board: FleetBoard, timed: TimedFacts, here: Mapping[str, str | None]) -> FleetCheck:
    """Return a board's row with everything that is wrong with it."""
    facts = timed.facts
    # The answer was made between our question and its arrival: the clocks differ by at least and at most this.
    least_s, most_s = facts.ended_at - timed.received_at, facts.began_at - timed.asked_at
    ahead_s, plus_minus_s = (least_s + most_s) / 2, abs(most_s - least_s) / 2
    known = facts.certificate is not None and here.get("cryptography") is not None
    days = days_left((facts.certificate or "").encode()) if known else None
    problems = [] if board.address is None else version_problems(facts.versions, here, board.name)
    if abs(ahead_s) - plus_minus_s > MAX_SKEW_S:
        side = "ahead" if ahead_s > 0 else "behind"
        problems.append(
            f"its clock is {abs(ahead_s):.1f} s {side} (± {plus_minus_s:.1f} s); set it: timedatectl set-ntp true"
        )
    if facts.free_bytes is not None and facts.free_bytes < MIN_BYTES:
        problems.append(f"only {facts.free_bytes >> 20} MiB are free for its records; free some space")
    if not facts.writable:
        problems.append(f"user {facts.user} may not write the fleet's folder; name another as `state:`")
    if facts.modes is not None:
        problems.append(f"power modes: {facts.modes}")
    if facts.device_problem is not None:
        problems.append(f"its device {board.device} cannot be opened: {facts.device_problem}")
    problems += [f"storage {medium}: {text}" for medium, text in facts.mounts.items() if text is not None]
    ending = None if days is None else spell_ending(days)
    if ending is not None:
        problems.append(
            f"its certificate {ending}; edgetrain fleet down, remove the fleet's tls folder, edgetrain fleet up"
        )
    return FleetCheck(
        board.name, board.board, board.address, facts.user, facts.device, facts.python, facts.versions, ahead_s,
        plus_minus_s, facts.free_bytes, days, facts.processes is not None, tuple(problems),
    )  # fmt: skip


def version_problems(
    there: Mapping[str, str | None], here: Mapping[str, str | None], board: str = "the board"
) -> list[str]:
    """Return what is missing or does not fit together."""
    problems = []
    if there.get("edgetrain") != here.get("edgetrain"):
        problems.append(
            f"edgetrain {there.get('edgetrain')} there, {here.get('edgetrain')} here; install the same version"
        )
    for name in NEEDED:
        if there.get(name) is None:
            problems.append(f"{name} is not installed; pip install 'edgetrain[fleet]' there")
        elif here.get(name) is not None and _year(there[name]) != _year(here[name]):
            problems.append(f"{name} {there[name]} there, {here[name]} here; install the same version")
    node, link = there.get("flwr"), here.get("flwr")
    if node is not None and link is not None:  # Flower is needed for federated training only
        problem = version_problem(link, node, board)
        problems += [] if problem is None else [problem]
    return problems


def _year(version: str | None) -> str:
    """Return the first part of a version, by which releases of Dask understand each other."""
    return (version or "").partition(".")[0]


def fleet_status(fleet: Fleet) -> FleetStatus:
    """Return what runs of a fleet; changes nothing."""
    here = fleet.pids()
    remote = [one for one in fleet.inventory.boards if one.address is not None]
    answers, problems = fleet.each(
        remote, lambda one: fleet.host_of(one).facts(ProcessName(fleet.home_of(one), one.name, ""))
    )
    known = here.get(SCHEDULER)
    rows = [FleetRow(SCHEDULER, None, None, None, (), known is not None, known.command if known else None)]
    for one in fleet.inventory.boards:
        if one.name in problems:
            rows.append(
                FleetRow(one.name, one.board, one.device, one.address, one.labels, None, None, problems[one.name])
            )
            continue
        known = here.get(one.name) if one.address is None else answers[one.name].facts.processes
        rows.append(
            FleetRow(
                one.name, one.board, one.device, one.address, one.labels, known is not None,
                known.command if known else None,
            )
        )  # fmt: skip
    return FleetStatus(
        fleet.inventory.name, fleet.known_address, (fleet.home / KEPT).exists(), fleet.used(), tuple(rows)
    )
