"""The user for whom `sudo edgetrain` works: training, store and records are that user's, only control needs root."""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path

from edgetrain.errors import UsageError

STORE = "EDGETRAIN_STORE"
# Drops root permanently, then executes the command. Arguments: user id, group ids (main one first), user's name.
# Python ignores two signals from its start on, and a program would inherit that.
AS_USER = """
import os, signal, sys
uid, groups = int(sys.argv[1]), [int(group) for group in sys.argv[2].split(",")]
os.setgroups(groups)
os.setgid(groups[0])
os.setuid(uid)
for name in ("SIGPIPE", "SIGXFSZ"):
    signal.signal(getattr(signal, name), signal.SIG_DFL)
try:
    os.execvp(sys.argv[4], sys.argv[4:])
except OSError as error:
    words = (sys.argv[3], sys.argv[4], error.strerror)
    sys.stderr.write("edgetrain: %s, who trains under sudo, cannot run %r: %s\\n" % words)
    sys.exit(127 if isinstance(error, FileNotFoundError) else 126)
"""


@dataclass(frozen=True, slots=True)
class SudoUser:
    """The user who called sudo."""

    name: str
    uid: int
    gid: int
    home: Path

    def environment(self) -> dict[str, str]:
        """Return the variables that name this user, for a process that runs as this user."""
        return {"HOME": str(self.home), "USER": self.name, "LOGNAME": self.name}

    def command_prefix(self, python: str) -> list[str]:
        """Return the words that make `python`, started as root, run the command after them as this user."""
        groups = [self.gid, *(group for group in os.getgrouplist(self.name, self.gid) if group != self.gid)]
        return [python, "-I", "-S", "-c", AS_USER, str(self.uid), ",".join(map(str, groups)), self.name]


def sudo_user(environ: Mapping[str, str] = os.environ, euid: int | None = None) -> SudoUser | None:
    """Return the user who called sudo; None where this process is not root or no such user exists."""
    name = environ.get("SUDO_USER")
    if not name or (os.geteuid() if euid is None else euid) != 0:
        return None
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    if entry.pw_uid == 0:
        return None
    return SudoUser(entry.pw_name, entry.pw_uid, entry.pw_gid, Path(entry.pw_dir))


def use_store_of(user: SudoUser, environ: MutableMapping[str, str] = os.environ) -> None:
    """Make this user's store the default one: sudo names root's home."""
    environ.setdefault(STORE, str(user.home / ".local" / "share" / "edgetrain"))


@contextlib.contextmanager
def owned_by(user: SudoUser | None, store: Path) -> Iterator[None]:
    """Make sure that the user may use the store, and give to the user what root wrote into it meanwhile."""
    if user is None:
        yield
        return
    _make_folder(store, user)
    _check_reachable(store, user)
    known = _folders(store)
    try:
        yield
    finally:
        for folder in sorted(_folders(store) - known):
            give(folder, user)


def _folders(store: Path) -> set[Path]:
    """Return the folders of a store, down to its runs, campaigns and datasets."""
    tops = [store / name for name in ("runs", "campaigns", "data")]
    return {path for top in tops for path in (top, *top.glob("*")) if path.is_dir()}


def give(top: Path, user: SudoUser) -> None:
    """Give a folder that root has made, and what root owns in it, to the user.

    No symbolic link is followed and no file with a second name is touched: the folder is the user's, who may have put
    a link to another file there.
    """
    with contextlib.suppress(OSError):
        for _, _, files, here in os.fwalk(top, follow_symlinks=False):
            with contextlib.suppress(OSError):
                if os.fstat(here).st_uid == 0:
                    os.fchown(here, user.uid, user.gid)
            for name in files:
                with contextlib.suppress(OSError):
                    found = os.stat(name, dir_fd=here, follow_symlinks=False)
                    if found.st_uid == 0 and found.st_nlink == 1:
                        os.chown(name, user.uid, user.gid, dir_fd=here, follow_symlinks=False)


def _make_folder(path: Path, user: SudoUser) -> None:
    """Make a folder and the missing ones above it, all of them the user's."""
    if path.exists():
        return
    _make_folder(path.parent, user)
    with contextlib.suppress(OSError):  # the next write names the reason
        path.mkdir()
        os.chown(path, user.uid, user.gid)


def _check_reachable(store: Path, user: SudoUser) -> None:
    """Refuse a store that the training process could not write to."""
    groups = os.getgrouplist(user.name, user.gid)
    for folder in reversed([store.absolute(), *store.absolute().parents]):
        try:
            found = folder.stat()
        except OSError:
            return  # the store itself says what is wrong
        bits = found.st_mode >> (6 if found.st_uid == user.uid else 3 if found.st_gid in groups else 0)
        if not bits & 1:
            raise UsageError(f"{user.name}, who trains under sudo, may not enter {folder}; choose another --store")
