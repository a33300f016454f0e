#!/usr/bin/env bash
# Installs what `make test-browser` and `make gallery` need: playwright, axe, and Debian's chromium where root may install it.
set -euo pipefail
venv=${VENV:-.venv}
say() { printf 'browser: %s\n' "$*" >&2; }
"$venv/bin/python" -m pip --disable-pip-version-check -qq install -c constraints.txt -e ".[browser,serve,plots]" ||
  say "playwright could not be installed; the tests of pages will be skipped"
if ! command -v chromium >/dev/null && ! command -v chromium-browser >/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing chromium"
    { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium fonts-dejavu-core >/dev/null; } ||
      say "chromium could not be installed; the tests of pages will be skipped"
  else
    say "no chromium here, and it cannot be installed without root (sudo apt install chromium): the tests of pages will be skipped"
  fi
fi
