"""What is right and wrong about the machine: pure functions, a file a topic.

Each docstring is what `preflight explain` prints.
"""
