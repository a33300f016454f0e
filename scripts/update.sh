#!/usr/bin/env bash
# Renews constraints.txt: the newest versions that fit together, for every Python from 3.10 on. torch is left out: it comes
# from the machine (on a Jetson from NVIDIA) or from TORCH_VERSION in the Makefile.
set -euo pipefail
venv=${VENV:-.venv}
"$venv/bin/python" -m pip --disable-pip-version-check -qq install uv
resolved=$(mktemp)
trap 'rm -f "$resolved"' EXIT
"$venv/bin/uv" pip compile pyproject.toml --all-extras --universal --python-version 3.10 --no-header --no-annotate -q -o "$resolved"
{
  echo "# Versions that \`make setup\` installs; renewed by \`make update\`."
  # nvidia-ml-py is a dependency of edgetrain; the other packages of that name are CUDA libraries that come with torch.
  grep -E '^(nvidia-ml-py)==' "$resolved"
  grep -vE '^(torch|triton|nvidia-[a-z0-9-]+|cuda-[a-z-]+)==' "$resolved"
} | sort -f >constraints.txt
echo "update: $(grep -c == constraints.txt) versions in constraints.txt"
