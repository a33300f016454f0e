"""A lab in use: limits applied to this machine for as long as the `with` block lasts.

with limits.applied(workers=2) as lab:
    command = [*lab.command_prefix(), "python", "train.py", str(lab.dataset_path(folder))]
    subprocess.run(command, env={**os.environ, **lab.environment()})
record = LimitsRecord(limits.asked(), lab.got)
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from edgetrain.errors import LabError
from edgetrain.lab import cgroups, cpu, sessions
from edgetrain.lab.images import measure_folder
from edgetrain.lab.limits import MachineLimits
from edgetrain.lab.mechanisms import Mechanisms
from edgetrain.lab.memory import CacheLimit
from edgetrain.lab.queueing import MediumModel
from edgetrain.lab.read_queue import READ_QUEUE, queue_setting
from edgetrain.lab.storage import SlowDisk
from edgetrain.lab.tables import IMAGE_BYTES
from edgetrain.schema import CoresGot, CpuShareGot, LimitsGot, RamGot, StorageGot
from edgetrain.units import spell_bytes

NOTHING_TO_LIMIT = "nothing to limit"
MEANS_ONLY = "means only: the kernel's throttle releases reads in 100 ms slices"
USER_SPACE = "user space: only files that Python opens below the dataset wait"
_JOIN = 'for f in $EDGETRAIN_LAB_JOIN; do echo $$ > "$f" || exit 125; done; unset EDGETRAIN_LAB_JOIN; exec "$@"'


def reclaims_by_itself(root: Path = Path("/")) -> bool:
    """Return whether the kernel frees idle file pages before memory is short, as far as sysfs shows it."""
    try:
        if (root / "sys/module/damon_reclaim/parameters/enabled").read_text().strip() in ("Y", "1"):
            return True
    except OSError:
        pass
    states = (root / "sys/kernel/mm/damon/admin/kdamonds").glob("*/state")
    return any(file.read_text().strip() == "on" for file in states if os.access(file, os.R_OK))


class Lab:
    """Limits in force. `got` has the mechanism of each, `doubts` what could not be had."""

    def __init__(
        self,
        limits: MachineLimits,
        workers: int,
        say: Callable[[str], None],
        held: bool,
        mechanisms: Mechanisms,
        user_program: bool = False,
        calibrate: Callable[[cgroups.Groups, float], tuple[float, float]] = cpu.calibrated_quota,
    ) -> None:
        self.limits = limits
        self.workers = workers
        self.got = LimitsGot()
        self.doubts: list[str] = []
        self._say = say
        self._held = held
        self._mechanisms = mechanisms
        self._user_program = user_program
        self._calibrate = calibrate
        self._cache: CacheLimit | None = None
        self._slow: SlowDisk | None = None
        self._environment: dict[str, str] = {}
        self._main_files: list[str] = []
        self._worker_files: list[str] = []
        self._affinity: list[int] | None = None
        self._server_groups: cgroups.Groups | None = None
        # Version 2 has one group for everything: readers enter it when any limit is on it.
        self._workers_join = limits.cache_bytes is not None or limits.cpu_share is not None

    def __enter__(self) -> Lab:
        removed = sessions.sweep()
        if removed:
            self._say(f"removed what a killed run left behind: {', '.join(removed)}")
        self.session = sessions.new(self._held)
        self.groups = cgroups.Groups(self.session.id, self._mechanisms.hierarchies)
        try:
            self._take_priority()
            self._limit_cores()
            self._limit_cpu_share()
            self._limit_cache()
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
        """End every limit; `got` stays readable."""
        if self._cache is not None and self.got.ram is not None:
            self._cache.close()
            most_cache_bytes, most_other_bytes = self._cache.most_cache_bytes, self._cache.most_other_bytes
            ram = replace(self.got.ram, most_cache_bytes=most_cache_bytes, most_other_bytes=most_other_bytes)
            self.got = replace(self.got, ram=ram)
        if self._slow is not None and self.got.storage is not None:
            with contextlib.suppress(OSError, ValueError, LabError):
                self.got = replace(self.got, storage=replace(self.got.storage, served=self._slow.served()))
        if not self._held:
            for stayed in sessions.take_down(self.session):
                self._say(f"could not be removed: {stayed}; `edgetrain lab down` tries again")

    def _keep_state(self) -> None:
        self.session.write(replace(self.session.read(), asked=self.limits.asked(), got=self.got))

    # The limits and their mechanisms

    def _take_priority(self) -> None:
        """Give the training and the slow disk priority over other load, which still gets a doubt in the record."""
        if not self.groups.hierarchies.has("cpu"):
            return
        try:
            self.groups.favour()
            self._join("cpu", "main")
            self._server_groups = cgroups.Groups(self.session.id, self.groups.hierarchies, "-server")
            self._server_groups.favour()
        except LabError as error:
            # Not a limit: without it other load has more effect.
            self._say(str(error))

    def _limit_cores(self) -> None:
        asked = self.limits.cores
        if asked is None:
            return
        cores = cpu.pick_cores(asked)
        if len(cores) < asked:
            self.doubts.append(f"requested {asked} cores; this machine has {len(cores)}")
        by = NOTHING_TO_LIMIT
        if len(cores) < len(os.sched_getaffinity(0)):
            if self.groups.hierarchies.has("cpuset"):
                # The top first: a group below it starts with its parent's cores.
                self.groups.hold_cores(cores)
                self._join("cpuset", "main")
                by = f"cpuset cgroup v{self.groups.version}"
            else:
                self._affinity = cores
                by = "affinity (a program may widen it again)"
        self.got = replace(self.got, cores=CoresGot(len(cores), tuple(cores), by))

    def _limit_cpu_share(self) -> None:
        share = self.limits.cpu_share
        if share is None:
            return
        if share >= 1:
            if share > 1.02:
                self.doubts.append(
                    f"cores {share:.2f} times as fast as this machine's were requested; the lab cannot speed cores up, "
                    "so they run at full speed"
                )
            self.got = replace(self.got, cpu_share=CpuShareGot(1.0, NOTHING_TO_LIMIT))
            return
        if not self.groups.hierarchies.has("cpu"):
            raise LabError("slower cores need a CPU control group; run as root, or leave --cpu-share out")
        quota, share_got = self._calibrate(self.groups, share)
        cores = self.limits.cores or len(os.sched_getaffinity(0))
        # One thread computes beside a real or paced accelerator; each of a board's cores has its own quota.
        self.groups.hold_quota(quota * cores, "main")
        self._join("cpu", "main")
        below = ("workers",) if self.groups.version == 2 else ()
        pins = self.groups.hierarchies.has("cpuset")
        places = cpu.pick_cores(cores)
        for number, worker in enumerate(["own", *map(str, range(self.workers))]):
            self.groups.hold_quota(quota, *below, worker)
            if pins:
                # A quota is granted core by core: a process that moves between them loses part of it.
                self.groups.hold_cores([places[-1 - number % len(places)]], *below, worker)
        if self.groups.version == 1:
            for controller in ("cpu", "cpuset") if pins else ("cpu",):
                self._worker_files.append(str(self.groups.folder(controller) / "{worker}" / "cgroup.procs"))
        by = f"quota per process, cgroup v{self.groups.version}, calibrated on a reference loop; not a clock"
        self.got = replace(self.got, cpu_share=CpuShareGot(share_got, by, quota))

    def _limit_cache(self) -> None:
        cache_bytes = self.limits.cache_bytes
        if cache_bytes is None:
            return
        if not self.groups.hierarchies.has("memory"):
            raise LabError("a RAM limit needs a memory control group; run as root, or leave --ram out")
        total_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if cache_bytes >= total_bytes:
            self.doubts.append(
                f"requested {spell_bytes(cache_bytes)} of page cache; this machine has {spell_bytes(total_bytes)} RAM"
            )
            self.got = replace(self.got, ram=RamGot(total_bytes, NOTHING_TO_LIMIT))
            return
        if reclaims_by_itself():
            self.doubts.append("this kernel frees idle page cache by itself (DAMON): warm files may become cold")
        folder = self.groups.folder("memory", "workers")
        if self.groups.version == 1:
            self._worker_files.append(str(folder / "cgroup.procs"))
        by = f"memory cgroup v{self.groups.version} around the processes that read the dataset"
        self.got = replace(self.got, ram=RamGot(cache_bytes, by))
        readers = max(1, self.workers)
        if self._held:
            # This process ends: a small one follows the group's memory until the group is removed.
            command = [sys.executable, "-m", "edgetrain.lab.memory", str(folder), str(cache_bytes), str(readers)]
            null = subprocess.DEVNULL
            subprocess.Popen(command, start_new_session=True, stdin=null, stdout=null, stderr=null)
        else:
            self._cache = CacheLimit(folder, cache_bytes, readers).start()

    def _join(self, controller: str, *below: str) -> None:
        for file in self.groups.procs_files([controller], *below):
            if file not in self._main_files:
                self._main_files.append(file)

    # What a training process needs

    @property
    def worker_group(self) -> str | None:
        """Return the value of EDGETRAIN_WORKER_CGROUP: files into which each process that reads the dataset writes."""
        files = list(self._worker_files)
        if self.groups.version == 2 and self._workers_join:
            base = self.groups.folder("memory", "workers")
            for worker in ["own", *map(str, range(self.workers))]:
                self.groups.folder("memory", "workers", worker)
            files.append(str(base / "{worker}" / "cgroup.procs"))
        return os.pathsep.join(files) or None

    def joined_files(self) -> list[str]:
        """Return the files into which a process writes to be limited like a loader worker."""
        return [*self._main_files, *filter(None, (self.worker_group or "").split(os.pathsep))]

    def let_join(self, uid: int, gid: int) -> None:
        """Let the loader workers of this user, who is not root, join the control groups of this lab."""
        _ = self.worker_group  # makes the groups
        self.groups.let_join(uid, gid)

    def environment(self) -> dict[str, str]:
        """Return what a training process must find in its environment."""
        environment = dict(self._environment)
        group = self.worker_group
        if group:
            environment["EDGETRAIN_WORKER_CGROUP"] = group
        slowed = self.got.cpu_share is not None and self.got.cpu_share.quota_cores is not None
        if slowed and (self.limits.accelerator or "").startswith("paced"):
            # Only the loaders compute, and their helper threads would use up the quota by waiting.
            environment["OMP_NUM_THREADS"] = "1"
        return environment

    def command_prefix(self) -> list[str]:
        """Return the words to put before a command so that it runs under the limits."""
        if self._affinity is not None:
            return ["taskset", "-c", ",".join(map(str, self._affinity))]
        if not self._main_files:
            return []
        joins = " ".join(shlex.quote(file) for file in self._main_files)
        return ["env", f"EDGETRAIN_LAB_JOIN={joins}", "/bin/sh", "-c", _JOIN, "edgetrain-lab"]

    def enter(self, pid: int) -> None:
        """Limit a process that is already running."""
        for file in self._main_files:
            try:
                Path(file).write_text(str(pid))
            except OSError as error:
                raise LabError(f"process {pid} cannot be put into {file}: {error.strerror}") from error
        if self._affinity is not None:
            os.sched_setaffinity(pid, self._affinity)

    def dataset_path(self, original: str | os.PathLike[str]) -> Path:
        """Return where training finds the dataset: on the slow medium, where one was asked for."""
        medium, dataset = self.limits.medium, Path(original)
        if medium is None:
            return dataset
        if self._mechanisms.slow_disk:
            return self._on_slow_disk(dataset, medium)
        if "root" not in self._mechanisms.lacks and self.groups.hierarchies.has("blkio"):
            return self._throttled(dataset, medium)
        reasons = "; ".join(self._mechanisms.lacks.values())
        if self._user_program:
            raise LabError(
                f"storage cannot be slowed down for a program of your own here: {reasons}; run as root, or leave"
                " --storage out (the built-in workloads can be slowed down without root)"
            )
        self._environment[READ_QUEUE] = queue_setting(self.session.folder / "read-queue", dataset, medium)
        self.got = replace(self.got, storage=StorageGot(medium.name, USER_SPACE))
        self.doubts.append(f"the storage medium is emulated in user space: {reasons}")
        return dataset

    def _on_slow_disk(self, dataset: Path, medium: MediumModel) -> Path:
        slow = self._slow = SlowDisk(self.session, dataset, self._mechanisms.lacks, self._say)
        if self._server_groups is not None:
            with contextlib.suppress(OSError):
                (self._server_groups.folder("cpu") / "cgroup.procs").write_text(str(slow.server_pid))
        slow.calibrate()
        slow.become(medium)
        got = StorageGot(
            medium=medium.name,
            by="slow disk (FUSE below a loop device)" if slow.through_loop else "slow folder (FUSE)",
            device=slow.device,
            floor_s=slow.floor_s + slow.floor_s_per_byte * IMAGE_BYTES,
            held_in_memory=slow.held,
        )
        self.got = replace(self.got, storage=got)
        if not slow.through_loop:
            reasons = "; ".join(self._mechanisms.lacks.values())
            self.doubts.append(f"reads from the slow medium are not counted in diskstats: {reasons}")
        self._keep_state()
        return self.session.view

    def _throttled(self, dataset: Path, medium: MediumModel) -> Path:
        about = measure_folder(dataset)
        mean_bytes = about.size_bytes / max(1, about.files)
        device = os.stat(dataset).st_dev
        rate = mean_bytes / medium.cost_s(int(mean_bytes))
        below = ("workers",) if self.groups.version == 2 else ()
        self.groups.hold_read_rate(f"{os.major(device)}:{os.minor(device)}", rate, *below)
        self._workers_join = True
        if self.groups.version == 1:
            self._worker_files += self.groups.procs_files(["blkio"])
        self.got = replace(self.got, storage=StorageGot(medium.name, MEANS_ONLY, bytes_per_s=rate))
        self.doubts.append("storage is right on average only: single reads do not take the medium's time")
        return dataset
