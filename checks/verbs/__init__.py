"""The verbs of the command line: a module each, loaded when that verb is asked for.

A module has `add_arguments(parser)` and `run(given)`, which gives the exit code. `run` takes its
words as pytest does, and `gate` says what is wrong with them in a form of its own: these have
`start(words)` instead.
"""
