"""edgetrain-control, the one program that runs as root: sets and restores cores, clocks and fan of a Jetson.

    edgetrain-control session     requests on standard input, one answer each, both as lines of JSON
    edgetrain-control restore     put the board back as the journal says (for a unit that runs at boot)

A request gives numbers for named settings (`gpu.max_hz`), never a path: the file of each name is found on the
board. Before the first change the values found are written to a journal that only root can read. When standard input
ends although a mode was to be held for a while, the caller has died, and the board is put back at once.

The modules of this package are Python 3.6 with the standard library only and import no other edgetrain package.
`program_text()` joins them into the one file that is installed, so that root runs nothing a user can change.
"""

from edgetrain.device.privileged.files import MAY_HANG, ControlError, Files, natural, open_beneath, read_descriptor
from edgetrain.device.privileged.journal import JOURNAL, JournalEntry, from_json
from edgetrain.device.privileged.program import serve, unsafe_reason
from edgetrain.device.privileged.settings import (
    BPMP,
    BWMGR,
    CLK_CAP,
    CPU,
    GPU_DEVICES,
    ISO_CAP,
    SAMPLES,
    T210_EMC,
    BoardSettings,
    active_throttles,
    find_fans,
    find_gpu,
    find_settings,
    is_throttle,
    rank,
    same,
)
from edgetrain.device.privileged.transaction import BoardTransaction, RestoreReport

PROGRAM = "/usr/local/sbin/edgetrain-control"
MODULES = ("files", "settings", "journal", "transaction", "program")
_HEAD = '#!/usr/bin/python3 -I\n"""{docstring}"""\n'

__all__ = [
    "BPMP", "BWMGR", "CLK_CAP", "CPU", "GPU_DEVICES", "ISO_CAP", "JOURNAL", "MAY_HANG", "PROGRAM", "SAMPLES",
    "T210_EMC",
    "BoardSettings", "BoardTransaction", "ControlError", "Files", "JournalEntry", "RestoreReport",
    "active_throttles", "find_fans", "find_gpu", "find_settings", "from_json", "is_throttle", "natural", "open_beneath",
    "program_text", "rank", "read_descriptor", "same", "serve", "unsafe_reason",
]  # fmt: skip


def program_text() -> str:
    """Return the text of edgetrain-control: the modules one after the other, without their imports of each other."""
    from importlib import resources  # slow to import, and rarely needed

    parts = [_HEAD.format(docstring=(__doc__ or "").split("\n\nThe modules", 1)[0])]
    for name in MODULES:
        source = resources.files(__package__).joinpath(f"{name}.py").read_text(encoding="utf-8")
        lines = [line for line in source.splitlines() if not line.startswith("from edgetrain.")]
        parts.append("\n".join(lines).strip() + "\n")
    return "\n\n".join(parts)
