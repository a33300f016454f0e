#!/usr/bin/env bash
# Trains LeNet with a Python 3.8 that has torch, numpy and Pillow and no edgetrain: what JetPack 5 offers.
set -euo pipefail
venv=${VENV:-.venv}
venv38=${VENV38:-.venv38}
torch=${TORCH38_VERSION:-2.1.2} # the newest that NVIDIA builds for JetPack 5 is a 2.1

say() { printf 'py38: %s\n' "$*" >&2; }

find_python() {
  for candidate in "${PYTHON38:-}" python3.8 "$HOME"/.pyenv/versions/3.8.*/bin/python; do
    # pyenv puts a name on the PATH that may stand for no installed version.
    if [ -n "$candidate" ] && "$candidate" -c '' 2> /dev/null; then
      echo "$candidate"
      return
    fi
  done
}

if ! "$venv38/bin/python" -c 'import torch, numpy, PIL' 2> /dev/null; then
  python=$(find_python)
  if [ -z "$python" ]; then
    say "no Python 3.8 was found; install one, or set PYTHON38=/path/to/python3.8"
    exit 1
  fi
  say "installing torch $torch into $venv38 ($python)"
  "$python" -m venv "$venv38"
  if ! "$venv38/bin/python" -m pip --disable-pip-version-check -qq install "torch==$torch" numpy Pillow; then
    say "torch $torch for Python 3.8 could not be installed here; nothing was trained"
    exit 1
  fi
fi
store=$(mktemp -d)
trap 'rm -rf "$store"' EXIT
"$venv/bin/edgetrain" run lenet5 --python "$venv38/bin/python" --batch-size 16 --epochs 2 --minibatches 200 --workers 2 \
  --store "$store"
EDGETRAIN_PYTHON38=$(realpath "$venv38")/bin/python "$venv/bin/python" -m pytest -q tests/workload/test_python38.py
