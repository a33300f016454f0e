#!/usr/bin/env bash
# Installs Lightning and the Hugging Face Trainer beside the torch that is there, so that their callbacks are tested.
# Nothing else needs them: where they cannot be had, those two tests are skipped.
set -euo pipefail
venv=${VENV:-.venv}
torch=$("$venv/bin/python" -c 'import importlib.metadata as m; print(m.version("torch"))' 2>/dev/null || true)
if [ -z "$torch" ]; then
  echo "setup: no torch here, so no trainers either; their tests will be skipped" >&2
  exit 0
fi
echo "setup: installing Lightning and the Hugging Face Trainer for their tests" >&2
# Naming the version that pip knows of keeps it from replacing torch.
"$venv/bin/python" -m pip --disable-pip-version-check -qq install -c constraints.txt -e ".[trainers]" "torch==$torch" ||
  echo "setup: they could not be installed; their tests will be skipped" >&2
