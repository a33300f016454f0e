"""What enters the user's training process: stopwatch, hook and writer.

Standard library only, Python 3.8 syntax, importing nothing else of ours, so that it works inside a Python
that is not the one edgetrain is installed in. There it is loaded by path under the name `edgetrain_inside`;
imports inside this package are therefore relative.
"""
