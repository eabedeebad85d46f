"""The library of preflight: how a box is probed, judged and recorded."""

__version__ = "0.1.0"
