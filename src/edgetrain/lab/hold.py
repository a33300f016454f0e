"""A lab in use: the machine held down, for as long as the `with` lasts.

with limits.applied(workers=2) as lab:
    command = [*lab.command_prefix(), "python", "train.py", str(lab.dataset_path(folder))]
    subprocess.run(command, env={**os.environ, **lab.environment()})
manifest["lab"] = {"asked": limits.asked(), "got": lab.got}
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from edgetrain.errors import LabError
from edgetrain.lab import bucket, cgroups, cpu, sessions
from edgetrain.lab.limits import Limits
from edgetrain.lab.memory import CacheLimit
from edgetrain.lab.queueing import Medium
from edgetrain.lab.storage import SlowDisk, measure_folder, missing
from edgetrain.lab.tables import IMAGE_BYTES
from edgetrain.units import spell_bytes

_JOIN = 'for f in $EDGETRAIN_LAB_JOIN; do echo $$ > "$f" || exit 125; done; unset EDGETRAIN_LAB_JOIN; exec "$@"'


def reclaims_by_itself(root: Path = Path("/")) -> bool:
    """Return whether the kernel gives up idle file pages before memory is short, as far as it says so."""
    try:
        if (root / "sys/module/damon_reclaim/parameters/enabled").read_text().strip() in ("Y", "1"):
            return True
    except OSError:
        pass
    states = (root / "sys/kernel/mm/damon/admin/kdamonds").glob("*/state")
    return any(file.read_text().strip() == "on" for file in states if os.access(file, os.R_OK))


class Lab:
    """Limits being held. `got` says by which mechanism each is, and what could not be had."""

    def __init__(self, limits: Limits, workers: int, say: Callable[[str], None], held: bool) -> None:
        self.limits = limits
        self.workers = workers
        self.got: dict[str, Any] = {}
        self.doubts: list[str] = []
        self._say = say
        self._held = held
        self._cache: CacheLimit | None = None
        self._slow: SlowDisk | None = None
        self._entry: dict[str, str] = {}
        self._main_files: list[str] = []
        self._worker_files: list[str] = []
        self._affinity: list[int] | None = None
        self._server_groups: cgroups.Groups | None = None
        # Version 2 has one group for everything: readers enter it when any limit is on it.
        self._workers_join = limits.cache_bytes is not None or limits.cpu_share is not None

    def __enter__(self) -> Lab:
        gone = sessions.sweep()
        if gone:
            self._say(f"removed what a killed run left behind: {', '.join(gone)}")
        self.session = sessions.new(self._held)
        self.groups = cgroups.Groups(self.session.id)
        try:
            self._stand_apart()
            self._hold_cores()
            self._hold_share()
            self._hold_cache()
        except BaseException:
            self.close()
            raise
        self._keep_state()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every limit; what was got stays readable."""
        if self._cache is not None:
            self._cache.close()
            self.got.setdefault("ram", {})["most_cache_bytes"] = self._cache.most_cache_bytes
            self.got["ram"]["most_other_bytes"] = self._cache.most_other_bytes
        if self._slow is not None and "storage" in self.got:
            with contextlib.suppress(OSError, ValueError):
                self.got["storage"]["served"] = self._slow.ask({})
        if not self._held:
            for stayed in sessions.take_down(self.session):
                self._say(f"could not be removed: {stayed}; `edgetrain lab down` tries again")

    def _keep_state(self) -> None:
        facts = self.session.read()
        facts.update(asked=self.limits.asked(), got=self.got, join=self._main_files, workers=self._worker_files)
        self.session.write(facts)

    # What each limit is held by

    def _stand_apart(self) -> None:
        """Let the training and the slow disk go before other load; the record still says that there was some."""
        if not self.groups.hierarchies.has("cpu"):
            return
        try:
            self.groups.favour()
            self._join("cpu", "main")
            self._server_groups = cgroups.Groups(self.session.id, self.groups.hierarchies, "-server")
            self._server_groups.favour()
        except LabError as error:
            # A help, not a limit: without it others' load shows more.
            self._say(str(error))

    def _hold_cores(self) -> None:
        asked = self.limits.cores
        if asked is None:
            return
        cores = cpu.pick_cores(asked)
        if len(cores) < asked:
            self.doubts.append(f"asked for {asked} cores, this machine has {len(cores)}")
        self.got["cores"] = {"cores": len(cores), "which": cores, "by": "nothing to hold"}
        if len(cores) == len(os.sched_getaffinity(0)):
            return
        if self.groups.hierarchies.has("cpuset"):
            # The top first: a group below it starts with what its parent has.
            self.groups.hold_cores(cores)
            self._join("cpuset", "main")
            self.got["cores"]["by"] = f"cpuset cgroup v{self.groups.version}"
        else:
            self._affinity = cores
            self.got["cores"]["by"] = "affinity (a program may widen it again)"

    def _hold_share(self) -> None:
        share = self.limits.cpu_share
        if share is None:
            return
        if share >= 1:
            if share > 1.02:
                self.doubts.append(f"asked for cores {share:.2f} times as fast as ours: they are as fast as they are")
            self.got["cpu_share"] = {"share": 1.0, "by": "nothing to hold"}
            return
        if not self.groups.hierarchies.has("cpu"):
            raise LabError("slower cores need a CPU control group; run as root, or leave --cpu-share out")
        quota, share_got = cpu.calibrated_quota(self.groups, share)
        cores = self.limits.cores or len(os.sched_getaffinity(0))
        # One thread computes beside a real or paced accelerator; a board's cores each have their own quota.
        self.groups.hold_quota(quota * cores, "main")
        self._join("cpu", "main")
        below = ("workers",) if self.groups.version == 2 else ()
        pins = self.groups.hierarchies.has("cpuset")
        places = cpu.pick_cores(cores)
        for number, worker in enumerate(["own", *map(str, range(self.workers))]):
            self.groups.hold_quota(quota, *below, worker)
            if pins:
                # A quota is handed out core by core: a process that moves between them loses part of it.
                self.groups.hold_cores([places[-1 - number % len(places)]], *below, worker)
        if self.groups.version == 1:
            for controller in ("cpu", "cpuset") if pins else ("cpu",):
                self._worker_files.append(str(self.groups.folder(controller) / "{worker}" / "cgroup.procs"))
        self.got["cpu_share"] = {
            "share": share_got,
            "quota_cores": quota,
            "by": f"quota per process, cgroup v{self.groups.version}, calibrated on a reference loop; not a clock",
        }

    def _hold_cache(self) -> None:
        cache_bytes = self.limits.cache_bytes
        if cache_bytes is None:
            return
        if not self.groups.hierarchies.has("memory"):
            raise LabError("a RAM limit needs a memory control group; run as root, or leave --ram out")
        total_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self.got["ram"] = {"page_cache_bytes": min(cache_bytes, total_bytes), "by": "nothing to hold"}
        if cache_bytes >= total_bytes:
            self.doubts.append(f"asked for {spell_bytes(cache_bytes)} of page cache, this machine has less RAM")
            return
        if reclaims_by_itself():
            self.doubts.append("this machine reclaims idle page cache by itself (DAMON): warm files may grow cold")
        folder = self.groups.folder("memory", "workers")
        if self.groups.version == 1:
            self._worker_files.append(str(folder / "cgroup.procs"))
        self.got["ram"]["by"] = f"memory cgroup v{self.groups.version} around whoever reads the dataset"
        readers = max(1, self.workers)
        if self._held:
            # Nobody will be here to follow: a small process does, until the group is gone.
            command = [sys.executable, "-m", "edgetrain.lab.memory", str(folder), str(cache_bytes), str(readers)]
            null = subprocess.DEVNULL
            subprocess.Popen(command, start_new_session=True, stdin=null, stdout=null, stderr=null)
        else:
            self._cache = CacheLimit(folder, cache_bytes, readers).start()

    def _join(self, controller: str, *below: str) -> None:
        for file in self.groups.procs_files([controller], *below):
            if file not in self._main_files:
                self._main_files.append(file)

    # What a run needs

    @property
    def worker_group(self) -> str | None:
        """Return what goes into EDGETRAIN_WORKER_CGROUP: the files whoever reads the dataset writes itself into."""
        files = list(self._worker_files)
        if self.groups.version == 2 and self._workers_join:
            base = self.groups.folder("memory", "workers")
            for worker in ["own", *map(str, range(self.workers))]:
                self.groups.folder("memory", "workers", worker)
            files.append(str(base / "{worker}" / "cgroup.procs"))
        return os.pathsep.join(files) or None

    def joined_files(self) -> list[str]:
        """Return the files a process writes itself into that wants to be held down like a loader worker."""
        return [*self._main_files, *filter(None, (self.worker_group or "").split(os.pathsep))]

    def environment(self) -> dict[str, str]:
        """Return what a training process must find in its environment."""
        environment = dict(self._entry)
        group = self.worker_group
        if group:
            environment["EDGETRAIN_WORKER_CGROUP"] = group
        if "quota_cores" in self.got.get("cpu_share", {}) and (self.limits.accelerator or "").startswith("paced"):
            # Nothing computes but the loaders, and their helper threads would use up the quota by waiting.
            environment["OMP_NUM_THREADS"] = "1"
        return environment

    def command_prefix(self) -> list[str]:
        """Return what to put before a command so that it runs held down."""
        if self._affinity is not None:
            return ["taskset", "-c", ",".join(map(str, self._affinity))]
        if not self._main_files:
            return []
        joins = " ".join(shlex.quote(file) for file in self._main_files)
        return ["env", f"EDGETRAIN_LAB_JOIN={joins}", "/bin/sh", "-c", _JOIN, "edgetrain-lab"]

    def enter(self, pid: int) -> None:
        """Hold down a process that already runs."""
        for file in self._main_files:
            try:
                Path(file).write_text(str(pid))
            except OSError as error:
                raise LabError(f"process {pid} cannot be put into {file}: {error.strerror}") from error
        if self._affinity is not None:
            os.sched_setaffinity(pid, self._affinity)

    def dataset_path(self, original: str | os.PathLike[str]) -> Path:
        """Return where training finds the dataset: on the slow medium, where one was asked for."""
        medium = self.limits.medium
        dataset = Path(original)
        if medium is None:
            return dataset
        lacks = missing()
        if "root" not in lacks and "fuse" not in lacks:
            self._slow = SlowDisk(self.session, dataset, self._say)
            if self._server_groups is not None:
                with contextlib.suppress(OSError):
                    (self._server_groups.folder("cpu") / "cgroup.procs").write_text(str(self._slow.server_pid))
            self._slow.calibrate()
            self._slow.become(medium)
            how = "slow disk (FUSE below a loop device)" if self._slow.through_loop else "slow folder (FUSE)"
            self.got["storage"] = {
                "medium": medium.name,
                "by": how,
                "device": self._slow.device,
                "floor_s": self._slow.floor_s + self._slow.floor_s_per_byte * IMAGE_BYTES,
                "held_in_memory": self._slow.held,
            }
            if not self._slow.through_loop:
                self.doubts.append("reads from the slow medium do not show in diskstats: " + "; ".join(lacks.values()))
            self._keep_state()
            return self.session.view
        if "root" not in lacks and self.groups.hierarchies.has("blkio"):
            return self._throttle(dataset, medium)
        entry = bucket.entry(self.session.folder / "bucket", dataset, medium)
        self._entry[bucket.ENTRY] = entry
        self.got["storage"] = {
            "medium": medium.name,
            "by": "user space: only what Python opens below the dataset waits",
        }
        self.doubts.append(f"the storage medium is emulated in user space: {'; '.join(lacks.values())}")
        return dataset

    def _throttle(self, dataset: Path, medium: Medium) -> Path:
        about = measure_folder(dataset)
        mean_bytes = about.size_bytes / max(1, about.files)
        device = os.stat(dataset).st_dev
        number = f"{os.major(device)}:{os.minor(device)}"
        rate = mean_bytes / medium.cost_s(int(mean_bytes))
        below = ("workers",) if self.groups.version == 2 else ()
        self.groups.hold_read_rate(number, rate, *below)
        self._workers_join = True
        if self.groups.version == 1:
            self._worker_files += self.groups.procs_files(["blkio"])
        self.got["storage"] = {
            "medium": medium.name,
            "by": "means only: the kernel's throttle releases reads in 100 ms slices",
            "bytes_per_s": rate,
        }
        self.doubts.append("storage is right on average only: single reads do not take a medium's time")
        return dataset
