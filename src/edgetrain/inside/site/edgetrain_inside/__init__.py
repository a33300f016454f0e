"""edgetrain's `inside` under a name of its own, for a Python that does not have edgetrain."""

import os

__path__ = [os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))]
