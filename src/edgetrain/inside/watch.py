"""For a loop that can be edited: `for batch in edgetrain.watch(loader): ...`.

A torch loader is recorded with its workers, as under `edgetrain profile`; of anything else that can be iterated the
waits are timed. Under `edgetrain profile` or `run` the record is theirs; on its own, a new run is made in the store.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import time
from typing import Any, Iterator

from . import place, process, stream

_owned = None  # the run directory this process made, and its manifest


def watch(loader: Any, timing: str = "async") -> Iterator[Any]:
    """Iterate a loader, recorded. Each pass is one epoch; steps are found by hooks."""
    began_ns = time.monotonic_ns()
    from . import session

    recording = session.begin(run_directory(), timing, steps=True)
    if _is_torch(loader):
        recording.timeline().iterator_made(began_ns)  # the first call waits for the recording to begin
        for batch in loader:
            yield batch
    else:
        for batch in _timed(recording, loader, began_ns):
            yield batch


def _is_torch(loader: Any) -> bool:
    dataloader = sys.modules["torch.utils.data.dataloader"]
    # A subclass may bring an iterator of its own (torchdata's): only torch's own is seen from inside.
    return isinstance(loader, dataloader.DataLoader) and _iterates_as_torch(loader, dataloader)


def _iterates_as_torch(loader: Any, dataloader: Any) -> bool:
    return type(loader).__iter__ is dataloader.DataLoader.__iter__ or not type(loader).__module__.startswith(
        "torchdata"
    )


def _timed(recording: Any, batches: Any, began_ns: int) -> Iterator[Any]:
    """Time something that is not a torch loader: asked and ready, nothing about who made the batch."""
    from . import loaders

    iterator = iter(batches)
    track = loaders.Pass(recording, recording.number_of(batches), loaders.OuterSource())
    recording.timeline().iterator_made(began_ns)
    while True:
        try:
            batch = track.next(iterator, next)
        except StopIteration:
            return
        yield batch


def run_directory() -> str:
    """Return the run directory that `profile` or `run` named, or make one."""
    global _owned
    given = os.environ.get("EDGETRAIN_RUN")
    if given and os.path.isdir(given):
        return given
    if _owned is None or _owned[2] != os.getpid():
        path, manifest = place.make_run(os.path.basename(sys.argv[0] or "watch"))
        _owned = (path, manifest, os.getpid())
        finish = functools.partial(_finish, path, manifest, os.getpid())
        atexit.register(finish)
        process.flush_before_exit(finish)
        sys.stderr.write("edgetrain: recording into %s; show it with: edgetrain show last\n" % path)
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
