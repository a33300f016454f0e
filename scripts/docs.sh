#!/usr/bin/env bash
# Builds the documentation site into site/: the pages of docs/, the reference of the Python API, commands and schemas from the code.
set -euo pipefail
venv=${VENV:-.venv}
"$venv/bin/python" -m pip --disable-pip-version-check -qq install -c constraints.txt -e ".[docs]"
"$venv/bin/python" scripts/reference.py docs/reference
NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build --strict --quiet --site-dir site
echo "docs: site/index.html"
