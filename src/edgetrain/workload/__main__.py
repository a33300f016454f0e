"""Starts the training program: `python -m edgetrain.workload --job FILE`, or this file by its path.

By path it works in any Python 3.8 or later with torch, numpy and Pillow, whether or not edgetrain is installed there,
and uses the edgetrain it lies in even where another one is installed. Below Python 3.10 `edgetrain` is then a bare
package with `workload` and `inside`. Loader workers that are spawned run this file again, and find the same package.

No newer syntax here: an older Python must be able to read this file and report its version.
"""

import importlib.util
import os
import sys


def _find_package() -> None:
    """Make `edgetrain.workload` and `edgetrain.inside` importable from where this file lies."""
    here = os.path.dirname(os.path.abspath(__file__))
    if sys.path and os.path.abspath(sys.path[0] or os.curdir) == here:
        # Our own modules must not shadow others (`import memory`); the user's are where the command was started.
        sys.path[0] = os.getcwd()
    if "edgetrain" in sys.modules:
        return
    folder = os.path.dirname(here)
    spec = importlib.util.spec_from_file_location(
        "edgetrain", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["edgetrain"] = package
    if sys.version_info >= (3, 10):
        spec.loader.exec_module(package)


if sys.version_info < (3, 8):
    sys.exit(
        "training needs Python 3.8 or later, %s is %d.%d; telemetry, power modes and import work without it"
        % ((sys.executable,) + tuple(sys.version_info[:2]))
    )
if not __package__:
    _find_package()

if __name__ == "__main__":
    from edgetrain.workload.program import main

    sys.exit(main(sys.argv[1:]))
