"""`python -m edgetrain` is the command line."""

from edgetrain.cli import main

main()
