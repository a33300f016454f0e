"""Two lines for a loop you can edit: `for batch in edgetrain.watch(loader): ...`.

A torch loader is recorded with its workers, as under `edgetrain profile`; anything else that can be iterated is timed
from the outside. Under `edgetrain profile` or `run` the record is theirs; on its own, a new run is made in the store.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from typing import Any, Iterator

from . import place, stream

_owned = None  # the run directory this process made, and its manifest


def watch(loader: Any, timing: str = "async") -> Iterator[Any]:
    """Iterate a loader, recorded. Each pass is one epoch; steps are found by hooks."""
    from . import session

    recording = session.begin(run_directory(), timing, steps=True)
    if _is_torch(loader):
        for batch in loader:
            yield batch
    else:
        for batch in _timed(recording, loader):
            yield batch


def _is_torch(loader: Any) -> bool:
    dataloader = sys.modules["torch.utils.data.dataloader"]
    # A subclass may bring an iterator of its own (torchdata's): only torch's own is seen from inside.
    return isinstance(loader, dataloader.DataLoader) and _iterates_as_torch(loader, dataloader)


def _iterates_as_torch(loader: Any, dataloader: Any) -> bool:
    return type(loader).__iter__ is dataloader.DataLoader.__iter__ or not type(loader).__module__.startswith(
        "torchdata"
    )


def _timed(recording: Any, batches: Any) -> Iterator[Any]:
    """Time something that is not a torch loader: asked and ready, nothing about who made the batch."""
    from . import loaders

    number = recording.number_of_other(batches)
    track = loaders.OuterPass(recording, number)
    iterator = iter(batches)
    while True:
        try:
            batch = track.next(iterator, next)
        except StopIteration:
            return
        yield batch


def run_directory() -> str:
    """Return the run directory of whoever started us, or make one."""
    global _owned
    given = os.environ.get("EDGETRAIN_RUN")
    if given and os.path.isdir(given):
        return given
    if _owned is None or _owned[2] != os.getpid():
        path, manifest = place.make_run(os.path.basename(sys.argv[0] or "watch"))
        _owned = (path, manifest, os.getpid())
        atexit.register(_finish, path, manifest, os.getpid())
        sys.stderr.write("edgetrain: recording into %s; look at it with: edgetrain show last\n" % path)
    return _owned[0]


def _finish(path: str, manifest: Any, pid: int) -> None:
    if os.getpid() != pid:
        return
    manifest = dict(manifest, state="finished")
    manifest["clock"] = dict(manifest["clock"], end={"monotonic_us": stream.now_us(), "wall_s": time.time()})
    try:
        stream.write_json(os.path.join(path, "manifest.json"), manifest)
    except OSError:
        pass
