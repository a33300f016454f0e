"""Runs when a Python under `edgetrain profile` starts: arms the hook, then hands on to the sitecustomize it shadows.

This folder is put in front of PYTHONPATH. Any Python from 3.8 on can load it: the package beside it,
`edgetrain_inside`, is edgetrain's `inside` under a name that needs no edgetrain installed.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _arm() -> None:
    run = os.environ.get("EDGETRAIN_RUN")
    if not run or sys.version_info < (3, 8):
        return
    try:
        from edgetrain_inside import hook  # type: ignore[import-not-found]

        hook.arm(run, os.environ.get("EDGETRAIN_TIMING") or "async")
    except Exception as error:  # the script must run, recorded or not
        sys.stderr.write("edgetrain: cannot load the recorder into this Python: %r\n" % (error,))


def _hand_on() -> None:
    """Run the sitecustomize that would have been found without us."""
    import importlib.machinery
    import importlib.util

    path = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_arm()
_hand_on()
