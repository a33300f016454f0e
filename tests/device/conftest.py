"""A GPU for machines without one: NVML's calls, compiled from C where there is a compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> str:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build the stand-in GPU with")
    library = tmp_path_factory.mktemp("nvml") / "libstandin.so"
    source = Path(__file__).with_name("nvml_stand_in.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    return str(library)
