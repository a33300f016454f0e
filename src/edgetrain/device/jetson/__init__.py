"""Jetson boards, Nano to Thor, JetPack 4 to 7: identity, rails, clocks, power modes.

`open_board(root)` gives the device; everything is read from the board's own files under `root`.
"""
