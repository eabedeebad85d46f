"""The profile of a box: what it should be, and what it is for.

Every section is a dataclass here; the JSON Schema in `expected/schema/` is made from them.
"""

from __future__ import annotations

import datetime
import difflib
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from checks.core.place import CONTAINER_ID, THIS, PlaceError, parse_place
from checks.core.setting import NAME, setting

SCHEMA_ID = "https://preflight.invalid/schema/profile-1.json"

_CHECK = r"[a-z0-9]+(\.[a-z0-9-]+)+"
_FILLED = r"[\s\S]*\S[\s\S]*"
_FILLED_FORM = "a text that says it"


def _absolute(path: str) -> str:
    return "" if path.startswith(("/", "~")) else "an absolute path"


@cache  # splitting is slow, and every check of every served model asks for it
def _words(command: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command))
    except ValueError:
        # refused in a file; what a ledger keeps may be cut inside a quotation
        return tuple(command.split())


def _command(command: str | tuple[str, ...]) -> str:
    try:
        words = shlex.split(command) if isinstance(command, str) else command
    except ValueError as error:
        return f"a command whose quotation is closed ({error})"
    return "" if words else "a command, or leave the key out"


_ARCHITECTURES = {
    "amd64": "x86_64",
    "x64": "x86_64",
    "x86_64": "x86_64",
    "arm64": "aarch64",
    "aarch64": "aarch64",
}
"""What packages and containers call an architecture, and what Linux does."""
ENGINES = (
    "llama.cpp",
    "llama-cpp-python",
    "llama-server",
    "llamafile",
    "koboldcpp",
    "ollama",
    "vllm",
    "sglang",
)
"""Engines that checks know by name: a slip in one of these would quietly make it a stranger."""
_SURELY_A_SLIP = 0.92
"""Leaves `llama` alone, which is near to `ollama` and means another."""


def _architecture(name: str) -> str:
    meant = _ARCHITECTURES.get(name.lower().replace("-", "_").replace(" ", ""), name)
    return "" if name == meant else f"what uname -m prints: {meant}"


def _engine(name: str) -> str:
    """Any engine may be named, but not one that is known in a spelling that is not."""
    if name.lower() in ENGINES:
        return ""
    known = {_letters(engine): engine for engine in ENGINES}
    close = difflib.get_close_matches(_letters(name), known, n=1, cutoff=_SURELY_A_SLIP)
    return f"an engine; did you mean `{known[close[0]]}`?" if close else ""


def _letters(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


_FEATURES = (
    *("avx2", "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl", "avx512vbmi"),
    *("avx512_bf16", "avx512_fp16", "avx512_vbmi2", "avx512_vnni", "avx512_vp2intersect"),
    *(
        "avx_vnni",
        "amx_bf16",
        "amx_complex",
        "amx_fp16",
        "amx_int8",
        "amx_tile",
        "sse4_1",
        "sse4_2",
    ),
    *("asimd", "asimddp", "asimdhp", "i8mm", "bf16", "sve", "sve2", "sme"),
)
_OTHER_FEATURES = {"neon": "asimd", "dotprod": "asimddp", "sse3": "pni", "lzcnt": "abm"}
"""What compilers and engines call an instruction set, and what the kernel does in /proc/cpuinfo."""


def _features(names: tuple[str, ...]) -> str:
    """Any flag of the kernel's may be named, but not one in a spelling that it does not use."""
    known = {_letters(feature): feature for feature in _FEATURES} | _OTHER_FEATURES
    for name in names:
        meant = known.get(_letters(name), name)
        if name != meant:
            return f"what /proc/cpuinfo calls it: {meant} for {name}"
        if not re.fullmatch(r"[a-z0-9_]{2,40}", name):
            return f"flags as /proc/cpuinfo has them, of small letters, digits and _; not {name!r}"
    return "" if names else "a flag, or leave the key out"


def _virtualization(name: str) -> str:
    """Hypervisors are too many to list, but these words are none."""
    words = name.lower()
    if words.startswith("bare") or words in ("metal", "physical", "false", "no"):
        return "`none` for bare metal"
    return (
        "`vm` for any hypervisor" if words.startswith("virtual") and words != "virtualbox" else ""
    )


def _serve_name(name: str) -> str:
    return f"another name: {name!r} is the suite's own process" if name == THIS else ""


def _place(text: str) -> str:
    try:
        parse_place(text)
    except PlaceError as error:
        return str(error)
    return ""


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """What the box should be made of. What is left out is not judged."""

    architecture: str | None = setting(
        "Machine type as `uname -m` prints it: x86_64, aarch64.",
        default=None,
        check=_architecture,
    )
    virtualization: str | None = setting(
        "`none` (bare metal), `vm` (any hypervisor), or the hypervisor's name: kvm, vmware, …",
        default=None,
        check=_virtualization,
    )
    container: str | None = setting(
        "`none`, `any`, or the kind: docker, podman, kubernetes, lxc, systemd-nspawn.",
        default=None,
    )
    product_name: str | None = setting(
        "System product name as /sys/class/dmi/id/product_name shows it.", default=None
    )
    memory_total_bytes: int | None = setting(
        "Memory fitted, in bytes (nominal).", default=None, minimum=1
    )
    memory_tolerance_ratio: float | None = setting(
        "How far MemTotal may be off, as a ratio of the nominal size; left out: 3 %, or 600 MiB "
        "where that is more (the kernel keeps some back).",
        default=None,
        minimum=0.0,
        maximum=0.5,
    )
    memory_available_min_bytes: int | None = setting(
        "Memory that must be available when the suite runs, in bytes.", default=None, minimum=2**20
    )
    swap_max_bytes: int | None = setting(
        "Swap that may be configured, in bytes, compressed memory (zram) included; 0: none.",
        default=None,
        minimum=0,
    )
    kernel_parameters: tuple[str, ...] = setting(
        "Parameters that must be on the kernel's command line: `iommu=pt`, `pcie_aspm=off`, …",
        default=(),
    )
    kernel_modules: tuple[str, ...] = setting(
        "Kernel modules that must be loaded: nvidia, nvidia_peermem, amdgpu, ib_core, …", default=()
    )
    clock_disciplined: bool | None = setting(
        "Whether the kernel must say that something disciplines its clock (what timedatectl calls "
        "`System clock synchronized: yes`; chrony needs `rtcsync` for it).",
        default=None,
    )
    cpu_model: str | None = setting(
        "Model of the processor as the ledger shows it: `model name` of /proc/cpuinfo, or `Model`.",
        default=None,
        pattern=_FILLED,
        form=_FILLED_FORM,
    )
    cpus: int | None = setting("Logical CPUs that are online.", default=None, minimum=1)
    cpu_features: tuple[str, ...] | None = setting(
        "Instruction sets that every CPU must have, by the kernel's names (`flags` or `Features` of "
        "/proc/cpuinfo): avx512f, amx_tile, asimddp, sve2, …",
        default=None,
        check=_features,
    )
    cpu_governor: str | None = setting(
        "Governor of the frequency of every CPU, such as performance (scaling_governor).",
        default=None,
        pattern=r"[a-z_]{1,16}",
        form="the name of a governor, such as performance",
    )
    numa_nodes: int | None = setting(
        "NUMA nodes, as `lscpu` counts them: also those without CPUs or without memory.",
        default=None,
        minimum=1,
    )
    gpus: int | None = setting(
        "GPUs of NVIDIA and AMD on the PCI bus; one that is integrated into the processor, or that "
        "no driver holds, may be left out. A container sees those of its host.",
        default=None,
        minimum=0,
    )
    mps: bool | None = setting(
        "Whether NVIDIA's Multi-Process Service is to run: its daemon shares GPUs between processes.",
        default=None,
    )
    assumed: tuple[str, ...] = setting(
        "Keys of this table that were detected and that nobody has declared yet: a pass against "
        "them stays unconfirmed.",
        default=(),
    )

    def problems(self) -> Iterator[tuple[str, str, str]]:
        """Find what one key alone cannot show: key, what was found, what is wanted."""
        for index, key in enumerate(self.assumed):
            if getattr(self, key, None) is None or key == "assumed":
                yield f"assumed[{index}]", f"found {key!r}", "name a key that this table holds"


@dataclass(frozen=True, kw_only=True)
class Reserved:
    """What the box keeps for others than what the profile serves: an operator, a database, a host."""

    cpus: float = setting(
        "Logical CPUs of the host that engines must leave free.", default=0.0, minimum=0.0
    )
    memory_bytes: int = setting(
        "Memory, in bytes, that must stay available beside hardware.memory_available_min_bytes.",
        default=0,
        minimum=0,
    )


@dataclass(frozen=True, kw_only=True)
class Paths:
    """Folders that the box needs room in."""

    model_cache: str | None = setting(
        "Folder of downloaded models; left out: what the servers' env or command name (HF_HUB_CACHE, "
        "HF_HOME, --download-dir), then this box's environment, then the hub's default.",
        default=None,
        check=_absolute,
    )
    tmp: str | None = setting(
        "Folder for temporary files; left out: TMPDIR or /tmp.", default=None, check=_absolute
    )
    tmp_free_min_bytes: int | None = setting(
        "Room that must be free in it, in bytes.", default=None, minimum=1
    )
    container_data: str | None = setting(
        "Data root of the container runtime; left out: those of docker, containerd and podman, as "
        "far as they are there (daemon.json, config.toml, storage.conf, or their defaults).",
        default=None,
        check=_absolute,
    )
    container_data_free_min_bytes: int | None = setting(
        "Room that must be free in it for images and containers, in bytes.",
        default=None,
        minimum=1,
    )


@dataclass(frozen=True, kw_only=True)
class Serve:
    """One model that the box is to serve."""

    name: str = setting(
        "Name in reports and test ids.",
        pattern=NAME,
        form="a name of letters, digits and . _ : / -, at most 100",
        check=_serve_name,
    )
    engine: str = setting(
        "Engine: llama.cpp, vllm, sglang, ollama, …",
        default="",
        pattern=r".{0,60}",
        check=_engine,
    )
    command: str | tuple[str, ...] | None = setting(
        "Command line that starts it, as a shell line or as a list.", default=None, check=_command
    )
    env: dict[str, str] = setting("Environment that it is started with.", default_factory=dict)
    where: str = setting(
        "Whose limits apply: `this` (started from where the suite runs), `pid:N`, `port:N`, "
        "`process:NAME`, `unit:NAME` (systemd), "
        f"`container:ID` ({CONTAINER_ID}).",
        default=THIS,
        check=_place,
    )
    model: str | None = setting("Hub id (`org/name`) or absolute path of the model.", default=None)
    model_bytes: int | None = setting(
        "Size of the model's files, in bytes.", default=None, minimum=1
    )
    host_memory_min_bytes: int | None = setting(
        "Memory of the host that it needs in all, in bytes; its cgroups must leave as much.",
        default=None,
        minimum=1,
    )
    shm_min_bytes: int | None = setting(
        "Size that its /dev/shm must have, in bytes.", default=None, minimum=1
    )
    open_files_min_count: int | None = setting(
        "Files and sockets that it must be able to hold open (`ulimit -n`).",
        default=None,
        minimum=1,
    )

    @property
    def argv(self) -> tuple[str, ...]:
        """The command as a list of words; empty if none is declared."""
        return _words(self.command) if isinstance(self.command, str) else self.command or ()


@dataclass(frozen=True, kw_only=True)
class Python:
    """One Python environment that the box works with."""

    name: str = setting(
        "Name in reports and test ids.",
        pattern=NAME,
        form="a name of letters, digits and . _ : / -, at most 100",
    )
    path: str = setting(
        "Its interpreter, such as /srv/venv/bin/python.",
        pattern=r"/[^\n]+",
        form="an absolute path",
    )


@dataclass(frozen=True, kw_only=True)
class Checks:
    """Which checks this box may go without."""

    optional: dict[str, str] = setting(
        "Check id = reason. An optional check that could not tell does not make the run "
        "incomplete; one that fails still fails.",
        default_factory=dict,
        pattern=_FILLED,
        form=_FILLED_FORM,
    )


@dataclass(frozen=True, kw_only=True)
class Waiver:
    """A known fail that may stand until a day. It never counts as a pass."""

    check: str = setting(
        "Id of the check.", pattern=_CHECK, form="an id such as machine.memory.total"
    )
    subject: str | None = setting("Subject; left out: every subject of the check.", default=None)
    reason: str = setting("Why it may stand.", pattern=_FILLED, form=_FILLED_FORM)
    ticket: str = setting("Where it is being mended.", pattern=_FILLED, form=_FILLED_FORM)
    until: datetime.date = setting("Last day on which it holds, YYYY-MM-DD (UTC).")


@dataclass(frozen=True, kw_only=True)
class ObserveOnly:
    """A check on trial: until a day its fails are reported and do not change the exit code."""

    check: str = setting(
        "Id of the check.", pattern=_CHECK, form="an id such as machine.memory.total"
    )
    until: datetime.date = setting("Last day on which it is only observed, YYYY-MM-DD (UTC).")


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What a box should be and what it is for."""

    schema: int = setting("Version of this format.", choices=(1,))
    description: str = setting("One line for the report.", default="")
    hardware: Hardware = setting("What the box should be made of.", default=Hardware())
    reserved: Reserved = setting("What the box keeps for others.", default=Reserved())
    paths: Paths = setting("Folders that it needs room in.", default=Paths())
    serve: tuple[Serve, ...] = setting("Models to serve.", default=(), unique="name")
    python: tuple[Python, ...] = setting("Python environments.", default=(), unique="name")
    checks: Checks = setting("Which checks it may go without.", default_factory=Checks)
    waiver: tuple[Waiver, ...] = setting("Known fails that may stand until a day.", default=())
    observe_only: tuple[ObserveOnly, ...] = setting(
        "Checks whose fails do not count until a day.", default=(), unique="check"
    )


LOCAL = Profile(schema=1)
"""The empty profile, `--host local`: nothing is declared."""
