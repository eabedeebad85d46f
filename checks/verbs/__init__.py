"""The verbs of the command line: a module each, loaded when that verb is asked for.

A module has `add_arguments(parser)` and `run(given)`, which gives the exit code. The suite's own
verb, `run`, takes its words as pytest does, so it has `start(words)` instead.
"""
