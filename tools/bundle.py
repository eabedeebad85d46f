"""Packs this checkout and the wheels it needs into one file, for a box that no package index answers.

    python tools/bundle.py [--python 3.11] [--arch aarch64]

Called by `make bundle`. The file unpacks to one folder, in which `make preflight` asks no index.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, NoReturn

from packaging.markers import Marker, default_environment

ROOT = Path(__file__).resolve().parent.parent

LEAVE_OUT = ["tests", ".ci", "requirements-dev.lock"]
"""What a box does not need in order to run the suite."""

OWN = ["expected/hosts", "expected/measured"]
"""Where a user's own profiles and measured numbers lie; git ignores them there."""

OLDEST_GLIBC = {"x86_64": 5, "aarch64": 17}
"""The first glibc 2.x for which wheels exist on each architecture (PEP 513, PEP 599)."""

NEWEST_GLIBC = 28
"""Debian 10, Ubuntu 20.04 and RHEL 8 have 2.28 or newer; wheels for anything newer are not taken."""

LEGACY_TAGS = {
    "x86_64": ["manylinux1", "manylinux2010", "manylinux2014"],
    "aarch64": ["manylinux2014"],
}
"""What wheels were called before PEP 600 named them after the glibc that they need."""


class Pin(NamedTuple):
    """One entry of a lock file."""

    name: str
    requirement: str
    """`name==version`."""
    marker: str
    """The condition under which it is wanted; empty for always."""
    hashes: list[str]


def stop(message: str) -> NoReturn:
    """End with one line that says what to do."""
    sys.exit(f"preflight: {message}")


def pins(lock: str) -> Iterator[Pin]:
    """Yield what the text of a lock file names."""
    for line in lock.replace("\\\n", " ").splitlines():
        if not line or line.lstrip().startswith("#"):
            continue
        wanted, *hashes = re.split(r"\s+--hash=", line.strip())
        requirement, _, marker = wanted.partition(";")
        name = requirement.partition("==")[0].strip()
        yield Pin(name, requirement.strip(), marker.strip(), [each.strip() for each in hashes])


def wanted_on(pin: Pin, python: str, arch: str) -> bool:
    """Tell whether the target may want this entry.

    pip judges markers by the interpreter that it runs on, even when it downloads for another.
    The target's patch release is not known, so its first and a very late one are both asked.
    """
    if not pin.marker:
        return True
    target = {
        **{key: str(value) for key, value in default_environment().items()},
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": arch,
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_version": python,
        "sys_platform": "linux",
    }
    return any(
        Marker(pin.marker).evaluate(
            {**target, "python_full_version": full, "implementation_version": full}
        )
        for full in (f"{python}.0", f"{python}.99")
    )


def download(wanted: list[Pin], python: str, arch: str, folder: Path) -> None:
    """Fetch one wheel for each entry, each checked against the digests of the lock."""
    lines = folder.parent / "wanted.txt"
    lines.write_text(
        "".join(
            " ".join([pin.requirement, *(f"--hash={each}" for each in pin.hashes)]) + "\n"
            for pin in wanted
        ),
        encoding="utf-8",
    )
    glibc = range(OLDEST_GLIBC[arch], NEWEST_GLIBC + 1)
    # The first that fits is taken: the one that asks least of the box.
    tags = [*LEGACY_TAGS[arch], *(f"manylinux_2_{minor}" for minor in glibc)]
    # An environment that uv made holds no pip.
    pip = [sys.executable, "-m", "pip"] if find_spec("pip") else ["uv", "tool", "run", "pip"]
    command = [
        *pip,
        *("download", "--quiet", "--disable-pip-version-check"),
        *("--only-binary", ":all:", "--no-deps", "--require-hashes", "--dest", str(folder)),
        *("--implementation", "cp", "--python-version", python),
        *(word for tag in tags for word in ("--platform", f"{tag}_{arch}")),
        *("--requirement", str(lines)),
    ]
    if subprocess.run(command, check=False).returncode:
        stop(f"the wheels for Python {python} on {arch} could not be fetched; pip says why above")


def git(*words: str) -> bytes:
    """Run git in the checkout and return what it prints."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=True)
    except FileNotFoundError:
        stop("make bundle needs git")
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip()
        stop(f"make bundle packs the last commit of a git checkout, and git says: {said}")
    return done.stdout


def committed(name: str) -> str:
    """Read a file as the commit has it, which the one on disk may be ahead of."""
    return git("show", f"HEAD:{name}").decode()


def own_files() -> list[str]:
    """Name the user's own profiles and measured numbers, which no commit holds."""
    names = git("ls-files", "--others", "-z", "--", *OWN).decode(errors="surrogateescape")
    return sorted(
        name for name in names.split("\0") if name.endswith(".toml") and (ROOT / name).is_file()
    )


def pack(
    target: Path, wheels: Path, note: str, commit: str, moment: int, own: Sequence[str] = ()
) -> None:
    """Write the bundle; the same commit, files of the user's own and wheels give the same bytes."""
    top = target.name.removesuffix(".tar.gz")
    partial = target.with_name(target.name + ".part")
    with (
        partial.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=moment) as squeezed,
        tarfile.open(fileobj=squeezed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        tarfile.open(fileobj=io.BytesIO(git("archive", "--format=tar", "HEAD"))) as checkout,
    ):

        def add(entry: tarfile.TarInfo, content: bytes | None) -> None:
            entry.mtime = moment
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            archive.addfile(entry, None if content is None else io.BytesIO(content))

        def add_file(name: str, content: bytes) -> None:
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mode = len(content), 0o644
            add(entry, content)

        for entry in checkout.getmembers():
            if any(entry.name == out or entry.name.startswith(f"{out}/") for out in LEAVE_OUT):
                continue
            source = checkout.extractfile(entry) if entry.isreg() else None
            entry.name = f"{top}/{entry.name}"
            add(entry, source.read() if source else None)
        for name in own:
            add_file(name, (ROOT / name).read_bytes())
        add_file(".commit", f"{commit}\n".encode())
        add_file("BUNDLE", note.encode())
        for wheel in sorted(wheels.iterdir()):
            add_file(f"wheels/{wheel.name}", wheel.read_bytes())
    partial.replace(target)


def main() -> None:
    """Make the bundle and say where it lies."""
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    machine = platform.machine()
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--python", default=running, help="version of the box's Python (%(default)s)"
    )
    parser.add_argument("--arch", default=machine, help="what uname -m prints there (%(default)s)")
    asked = parser.parse_args()
    arch = {"arm64": "aarch64", "amd64": "x86_64"}.get(asked.arch, asked.arch)
    if not re.fullmatch(r"3\.1[0-9]", asked.python):
        stop(f"BUNDLE_PYTHON={asked.python}: say a version such as 3.11; 3.10 is the oldest")
    if arch not in OLDEST_GLIBC:
        stop(f"BUNDLE_ARCH={asked.arch}: say one of {', '.join(OLDEST_GLIBC)}")

    commit = git("rev-parse", "--verify", "HEAD").decode().strip()
    moment = int(git("show", "--no-patch", "--format=%ct", "HEAD"))
    if git("status", "--porcelain"):
        print("preflight: some files differ from the last commit; the bundle holds the commit")
    version = re.search(r'^__version__ = "(.+)"', committed("checks/__init__.py"), re.MULTILINE)
    if version is None:
        stop("checks/__init__.py of the last commit states no __version__")

    runtime = pins(committed("requirements.lock"))
    wanted = [pin for pin in runtime if wanted_on(pin, asked.python, arch)]
    # pip itself, so that a Python that was packaged without it can install the rest.
    wanted += [pin for pin in pins(committed("requirements-dev.lock")) if pin.name == "pip"]

    dist = ROOT / "dist"
    dist.mkdir(exist_ok=True)
    short = asked.python.replace(".", "")
    target = dist / f"preflight-bundle-{version[1]}-py{short}-{arch}.tar.gz"
    note = (
        f"preflight: {version[1]}\ncommit: {commit}\npython: {asked.python}\narch: {arch}\n"
        f"glibc: 2.{NEWEST_GLIBC} or newer\nuse: make preflight HOST=local\n"
    )
    with tempfile.TemporaryDirectory(prefix="preflight-bundle-") as folder:
        wheels = Path(folder, "wheels")
        wheels.mkdir()
        print(f"preflight: fetching {len(wanted)} wheels for Python {asked.python} on {arch}")
        download(wanted, asked.python, arch, wheels)
        own = own_files()
        pack(target, wheels, note, commit, moment, own)

    digest = hashlib.sha256(target.read_bytes()).hexdigest()
    print(f"preflight: {target.relative_to(ROOT)}, {target.stat().st_size / 1e6:.1f} MB")
    print(f"  sha256 {digest}")
    if own:
        print(f"  your own: {', '.join(own)}")
    print(f"  on the box: tar xf {target.name} && cd {target.name.removesuffix('.tar.gz')}")
    print("  then:       make preflight HOST=local")


if __name__ == "__main__":
    main()
