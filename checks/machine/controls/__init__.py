"""For each check, the nearest observation that must fail and the nearest that must pass."""
