"""Which preflight this is: version, commit, digest of its sources, versions of its libraries."""

from __future__ import annotations

import hashlib
import platform
import re
from importlib import metadata
from pathlib import Path

from checks import __version__
from checks.core.codec import Json
from checks.core.paths import HERE, commit_file, is_checkout

LIBRARIES = (
    "pytest",
    "rich",
    "jsonschema",
    "tomli",
    "tomlkit",
    "rfc8785",
    "dnspython",
    "requests",
    "huggingface-hub",
    "nvidia-ml-py",
)


def versions() -> dict[str, Json]:
    """Collect them for the ledger."""
    packages: dict[str, Json] = {name: _version(name) for name in LIBRARIES}
    return {
        "preflight": __version__,
        "commit": _commit(),
        "source_sha256": _source_sha256(),
        "python": platform.python_version(),
        "packages": packages,
    }


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"


def _commit() -> str | None:
    """Read the commit from .git without git, or from the note that a package or bundle keeps."""
    if is_checkout():
        found = _git_head(HERE / ".git")
        if found:
            return found
    for note in (commit_file(), HERE / ".commit"):
        text = _text(note)
        if re.fullmatch(r"[0-9a-f]{40,64}", text):
            return text
    return None


def _git_head(git: Path) -> str:
    pointer = _text(git)
    if pointer.startswith("gitdir: "):  # a worktree
        git = (git.parent / pointer.removeprefix("gitdir: ")).resolve()
    head = _text(git / "HEAD")
    if not head.startswith("ref: "):
        return head
    name = head.removeprefix("ref: ")
    common = _text(git / "commondir")
    for folder in (git, git / common if common else git):
        commit = _text(folder / name)
        if commit:
            return commit
        for line in _text(folder / "packed-refs").splitlines():
            if line.endswith(f" {name}"):
                return line.partition(" ")[0]
    return ""


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except (OSError, ValueError):
        return ""


def _source_sha256() -> str:
    """Digest of all our own source files: tells an altered checkout from its commit."""
    whole = hashlib.sha256()
    for folder in ("checks", "preflight"):
        for path in sorted((HERE / folder).rglob("*.py")):
            whole.update(f"{path.relative_to(HERE)}\0".encode())
            whole.update(path.read_bytes())
    return whole.hexdigest()
