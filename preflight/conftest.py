"""Loads the suite's plugin where preflight is not installed (installed, its entry point does)."""

pytest_plugins = ["preflight.plugin"]
