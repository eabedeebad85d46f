"""What no check of this version looks at: said in every ledger and report."""

from __future__ import annotations

NOT_COVERED: tuple[tuple[str, str], ...] = (
    ("gpu", "GPU health, memory errors, links, clocks and speed (only the PCI list is read)"),
    ("network", "names, routes, TLS and downloads that the box needs"),
    ("contracts", "names and contents of result files between tools"),
    ("models", "model files, their headers and formats"),
    ("memory", "whether models and their KV cache fit"),
    ("adapters", "LoRA targets and adapter files"),
    ("startup", "start-up of engines, cold and warm"),
    ("serving", "answers, concurrency and time limits of a server"),
    ("training", "throughput and utilisation of training"),
    ("several nodes", "links and collectives between boxes"),
    ("energy", "energy used and heat over hours"),
    ("quality", "whether a trained or quantised model answers well"),
    ("security", "who may log in and what is patched"),
)
"""An area leaves this list when it has checks."""
