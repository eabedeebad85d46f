"""Inference engines: how each is told things, and what it takes if it is told nothing."""
