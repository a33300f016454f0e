"""The lab's results as text."""

from edgetrain.documents import to_document
from edgetrain.lab.measure import proof
from edgetrain.report.lab import lab_down_text, lab_measured_table, lab_preview_text, lab_status_text, lab_up_text
from edgetrain.report.text import console
from edgetrain.schema import (
    SCHEMA,
    CoresGot,
    CpuShareGot,
    LabDown,
    LabMeasured,
    LabMechanisms,
    LabPreview,
    LabStatus,
    LabUp,
    LimitsAsked,
    LimitsGot,
    Origin,
    RamGot,
    SessionFacts,
    StorageGot,
    StorageModel,
)
from tests.schemas import check_document

GOT = LimitsGot(
    storage=StorageGot("sd", "slow disk", "/dev/loop3", 0.0001, True),
    ram=RamGot(20_000_000, "memory cgroup v2"),
    cores=CoresGot(2, (2, 3), "cpuset cgroup v2"),
    cpu_share=CpuShareGot(0.5, "quota per process", 0.48),
)


def text(renderable) -> str:
    screen = console()
    with screen.capture() as captured:
        screen.print(renderable, soft_wrap=True)
    return captured.get()


def session(**more) -> SessionFacts:
    return SessionFacts("ab12", **{"leftover": False, "held": False, "owner": 7, "mounts": (), "loops": (),
                                   "servers": (), "got": GOT, **more})  # fmt: skip


def test_lab_up_shows_each_limit_with_its_mechanism_and_the_command_line():
    up = LabUp("ab12", Origin.EMULATED, LimitsAsked(), GOT, ("a doubt",), "/view", ("taskset", "-c", "2"), {"A": "b c"})
    shown = text(lab_up_text(up))
    assert "storage: sd, /dev/loop3, mechanism 100 µs per picture; by slow disk" in shown
    assert "page cache: 20 MB; by memory cgroup v2" in shown
    assert "cores: 2 (number 2, 3); by cpuset cgroup v2" in shown
    assert "CPU share: 0.5 of a core; by quota per process" in shown
    assert "doubt: a doubt" in shown and "the dataset is at /view" in shown
    assert "A='b c' taskset -c 2 edgetrain profile -- python train.py" in shown


def test_a_preview_says_what_is_missing():
    asked = LimitsAsked(storage=StorageModel("hdd", 0.02, 1e8), cores=2, speed=2.5)
    shown = text(lab_preview_text(LabPreview(asked, {"root": "mounting needs root"}, 0)))
    assert "would limit this machine: storage like hdd, 2 cores, every time divided by 2.5" in shown
    assert "missing for the slow disk: mounting needs root" in shown and "control groups: none here" in shown


def test_status_distinguishes_running_held_and_left_sessions():
    mechanisms = LabMechanisms("slow disk", 2, True, True, False, False)
    sessions = (session(), session(held=True), session(leftover=True, got=None))
    shown = text(lab_status_text(LabStatus(sessions, mechanisms, 3, 5_000_000)))
    assert "run of process 7; limits storage, page cache, cores, CPU share" in shown
    assert "stays until `edgetrain lab down`" in shown
    assert "left by a killed run; limits nothing yet" in shown
    assert "control groups: version 2, memory, cpu" in shown and "disk images kept: 3 (5 MB)" in shown
    assert "the lab is down" in text(lab_status_text(LabStatus((), mechanisms, 0, 0)))


def test_down_shows_what_was_or_would_be_removed():
    assert "removed ab12" in text(lab_down_text(LabDown((session(),), (), (), ())))
    assert "would remove ab12" in text(lab_down_text(LabDown((), (session(),), (), ())))
    assert "nothing" in text(lab_down_text(LabDown((), (), (), ())))


def test_measured_limits_are_judged_within_their_tolerance():
    proofs = (
        proof("sd", "latency", "ms", 8.0, 8.4, "slow disk"),
        proof("sd", "bandwidth", "MB/s", 80.0, 60.0, "slow disk"),
        proof("cpu", "loop", "x", 0.5, 0.3, "quota", judged=False),
        proof("ram", "cacheable bytes", "MB", 48.0, None, "cgroup"),
    )
    assert [one.holds for one in proofs] == [True, False, None, False]
    measured = LabMeasured(Origin.MEASURED, 0.15, proofs)
    check_document(["lab", "measure"], {"schema": SCHEMA, **to_document(measured)})
    shown = text(lab_measured_table(measured))
    assert all(head in shown for head in ("requested", "measured", "deviation"))
    assert "+5.0%" in shown and "-25.0%" in shown and "not judged" in shown and "sd: by slow disk" in shown
