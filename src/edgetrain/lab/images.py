"""Disk images of datasets for the slow disk: an ext4 file system made once per dataset and kept between sessions."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgetrain.errors import LabError
from edgetrain.lab import fuse
from edgetrain.units import spell_bytes

_BLOCK_BYTES = 4096


@dataclass(frozen=True, slots=True)
class FolderSize:
    """How many files a dataset has, and how large they are on a disk."""

    files: int
    folders: int
    size_bytes: int
    on_disk_bytes: int
    newest_ns: int


def measure_folder(path: Path) -> FolderSize:
    """Count a dataset's files."""
    files = folders = size_bytes = on_disk_bytes = newest_ns = 0
    for node in fuse.folder_tree(str(path)):
        if node.is_folder:
            folders += 1
            newest_ns = max(newest_ns, os.stat(node.path).st_mtime_ns)
        else:
            files += 1
            size_bytes += node.size_bytes
            on_disk_bytes += -(-node.size_bytes // _BLOCK_BYTES) * _BLOCK_BYTES
            newest_ns = max(newest_ns, node.mtime_s * 10**9)
    return FolderSize(files, folders, size_bytes, on_disk_bytes, newest_ns)


def images_folder() -> Path:
    """Return where disk images are kept between sessions."""
    own = os.environ.get("EDGETRAIN_LAB_IMAGES")
    return Path(own) if own else Path("/var/cache/edgetrain/lab")


def free_bytes(folder: Path) -> int:
    """Return the space left on the folder's file system."""
    return shutil.disk_usage(folder).free


def build_image(
    dataset: Path, say: Callable[[str], None] = lambda text: None, free: Callable[[Path], int] = free_bytes
) -> Path:
    """Return a disk image that holds the dataset, made once and kept."""
    about = measure_folder(dataset)
    if about.files == 0:
        raise LabError(f"{dataset} has no files, so there is nothing to put on a storage medium")
    key = f"{dataset.resolve()}|{about.files}|{about.size_bytes}|{about.newest_ns}"
    image = images_folder() / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.ext4"
    if image.exists():
        return image
    images_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    forget_images()
    inodes = about.files + about.folders + 64
    size_bytes = int(about.on_disk_bytes * 1.02) + (inodes + about.folders) * 512 + about.folders * 16384 + (32 << 20)
    left_bytes = free(images_folder())
    if size_bytes > left_bytes:
        raise LabError(
            f"the disk image of {dataset} needs {spell_bytes(size_bytes)}, {images_folder()} has"
            f" {spell_bytes(left_bytes)} left; free some, or set EDGETRAIN_LAB_IMAGES to another folder"
        )
    say(f"making a disk image of {about.files} files ({spell_bytes(about.size_bytes)}), once")
    _make_file_system(image, dataset, size_bytes, inodes + 16)
    return image


def _make_file_system(image: Path, dataset: Path, size_bytes: int, inodes: int) -> None:
    """Write the image with the dataset in it; it appears under its name when it is complete."""
    temporary = image.with_suffix(f".{os.getpid()}.tmp")
    with open(temporary, "wb") as file:
        file.truncate(size_bytes)
    command = ["mkfs.ext4", "-q", "-F", "-m", "0", "-b", str(_BLOCK_BYTES), "-N", str(inodes)]
    command += [
        "-O",
        "^has_journal,^resize_inode",
        "-E",
        "nodiscard,lazy_itable_init=0",
        "-d",
        str(dataset),
        str(temporary),
    ]
    environment = dict(os.environ, PATH=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        temporary.unlink()
        raise LabError(f"mkfs.ext4 could not make the disk image: {done.stderr.strip() or done.returncode}")
    # Otherwise the kernel would still be writing it while reads are measured.
    descriptor = os.open(temporary, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    image.with_suffix(".of").write_text(str(dataset.resolve()))
    os.replace(temporary, image)


def kept_images() -> list[Path]:
    """Return the disk images that are kept."""
    return sorted(images_folder().glob("*.ext4"))


def forget_images(every: bool = False) -> int:
    """Remove the images of datasets that are gone, or all; return how many."""
    removed = 0
    for image in kept_images():
        note = image.with_suffix(".of")
        try:
            known = Path(note.read_text()).is_dir()
        except OSError:
            known = False
        if every or not known:
            # An image in use stays readable for its server until that ends.
            image.unlink(missing_ok=True)
            note.unlink(missing_ok=True)
            removed += 1
    return removed
