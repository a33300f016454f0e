#!/usr/bin/env bash
# Tests edgetrain.federated with the oldest and the newest Flower that we support, each in its own virtual environment.
# Arguments go to pytest: scripts/test_flower.sh -k correction
set -euo pipefail
oldest=${FLOWER_OLDEST:-1.30.0} # the last for Python 3.10, which is JetPack 6's
newest=${FLOWER_NEWEST:-1.41.0} # the newest that installs
venv=${VENV:-.venv}

say() { printf 'test-flower: %s\n' "$*" >&2; }

find_python() {
  for candidate in "python$1" "$HOME"/.pyenv/versions/"$1".*/bin/python; do
    # pyenv puts a name on the PATH that may stand for no installed version.
    if "$candidate" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2> /dev/null; then
      echo "$candidate"
      return
    fi
  done
}

build() { # folder, Python, Flower
  local python
  python=$(find_python "$2")
  if [ -z "$python" ]; then
    say "no Python $2 was found, so Flower $3 is not tested here"
    return 1
  fi
  if ! "$1/bin/python" -c "from importlib.metadata import version; assert version('flwr') == '$3'" 2> /dev/null; then
    say "installing Flower $3 into $1 ($python)"
    "$python" -m venv "$1"
    # The simulation engine (Ray) is part of the newest only: it is never installed on a board.
    local extra=
    if [ "$3" = "$newest" ]; then extra='[simulation]'; fi
    "$1/bin/python" -m pip --disable-pip-version-check -qq install "flwr$extra==$3" -e ".[federated]" pytest pytest-timeout
  fi
}

tested=0
for pair in "flower310 3.10 $oldest" "flower311 3.11 $newest"; do
  read -r folder python flower <<< "$pair"
  if build "$venv-$folder" "$python" "$flower"; then
    say "Flower $flower on Python $python"
    EDGETRAIN_FLOWER_RUN=1 PYTHONPATH=src "$venv-$folder/bin/python" -m pytest tests/federated tests/runner/test_in_process.py -q -rs "$@"
    tested=$((tested + 1))
  fi
done
if [ "$tested" = 0 ]; then
  say "neither Python 3.10 nor 3.11 is here: nothing was tested"
  exit 1
fi
