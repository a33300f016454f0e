#!/usr/bin/env bash
# Builds the virtual environment. torch is special: on a Jetson it must be NVIDIA's, so it is never installed there.
set -euo pipefail
venv=${VENV:-.venv}
python=${PYTHON:-python3}

say() { printf 'setup: %s\n' "$*" >&2; }

"$python" - <<'PY' || exit 1
import sys
if not (3, 10) <= sys.version_info[:2]:
    sys.exit("setup: Python 3.10 or later is needed, this is %d.%d; set PYTHON=/path/to/python3.10" % sys.version_info[:2])
PY

torch_version() { "$1" -c 'import torch; print(torch.__version__)' 2>/dev/null || true; }
is_jetson() { [ -e /etc/nv_tegra_release ] || grep -qa tegra /proc/device-tree/compatible 2>/dev/null; }

system_torch=$(torch_version "$python")
if [ ! -x "$venv/bin/python" ]; then
  # A torch that is already importable is kept: the environment then sees the system's packages.
  if [ -n "$system_torch" ]; then "$python" -m venv --system-site-packages "$venv"; else "$python" -m venv "$venv"; fi
fi
pip() { "$venv/bin/python" -m pip --disable-pip-version-check -qq "$@"; }

if [ -z "$(torch_version "$venv/bin/python")" ]; then
  if is_jetson; then
    say "this is a Jetson and no torch is importable: install NVIDIA's build (docs/boards.md says where), then run make setup again; everything but training works until then"
  else
    say "installing torch ${TORCH_VERSION} (CPU)"
    pip install "torch==${TORCH_VERSION}" || say "torch ${TORCH_VERSION} could not be installed; everything but training works without it"
  fi
else
  say "using torch $(torch_version "$venv/bin/python")"
fi
say "installing edgetrain and its tools"
pip install -c constraints.txt -e ".[dev,nvml,baselines,plots,export,serve,fleet]" "Pillow>=9"
say "ready: $venv/bin/edgetrain"
