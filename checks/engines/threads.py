"""How an engine is told how many CPU threads to start (and what it starts if not), and how many GPUs.

Sources, read 2026-08: llama.cpp `common/arg.cpp` (-t, --threads, -tb, --threads-batch,
LLAMA_ARG_THREADS; default: physical cores of the host, read from sysfs, not from the cgroup);
llama-cpp-python (`--n_threads`, N_THREADS; n_threads_batch, for prompts, is by default every CPU of
the host, `llama_cpp/server/settings.py`); OpenMP 5.2 section 21.1.2 (OMP_NUM_THREADS, a list
whose first entry is the outer level); `--cpuset-cpus` and `--cpus` of containers change neither.
ggml starts its threads with `num_threads(…)` (github.com/ggml-org/llama.cpp/pull/7606), which wins
over OMP_NUM_THREADS (OpenMP 5.2, section 10.1.1), so that variable does not limit llama.cpp and
what is built on it. Ollama has no variable of the kind (github.com/ollama/ollama/issues/10476); it
tells its runner by `--threads`. PyTorch takes OMP_NUM_THREADS, and MKL_NUM_THREADS where it was
built with MKL (`aten/src/ATen/ParallelOpenMP.cpp`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from checks.core.redact import HIDDEN

_SHORT_T = ("-t", "-tb", "-td", "-tbd")
"""Means threads in llama.cpp and its relatives; other engines use it for other things."""
_LONG = ("--threads", "--n-threads", "--n_threads", "--num-threads", "--nthreads")
_PARTS = (
    *("-tb", "-td", "-tbd", "--threads-batch", "--threads-draft", "--threads-batch-draft"),
    *("--spec-draft-threads", "--spec-draft-threads-batch", "--blasthreads", "--blas-threads"),
    *("--n-threads-batch", "--n_threads_batch", "n_threads_batch", "N_THREADS_BATCH"),
)
"""Options and variables for a part of the work (prompts, a draft model): not for generation."""
_BARE = ("n_threads", "num_threads", "num_thread", "threads", "n_threads_batch")
"""`n_threads=4` as one word."""
_LLAMA = ("LLAMA_ARG_THREADS",)
_LLAMA_PYTHON = ("N_THREADS", "N_THREADS_BATCH")
_TORCH = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_LIBRARIES = (*_TORCH, "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")
"""What an engine that is not known may listen to."""
_READS: Mapping[str, tuple[str, ...]] = {
    "llama-server": _LLAMA,
    "llama-cli": _LLAMA,
    "llama-bench": (),
    "llama.cpp": _LLAMA,
    "llamafile": _LLAMA,
    "llama-cpp-python": _LLAMA_PYTHON,
    "llama_cpp.server": _LLAMA_PYTHON,
    "koboldcpp": (),
    "ollama": (),
    "whisper-server": (),
    "vllm": _TORCH,
    "vllm.entrypoints.openai.api_server": _TORCH,
    "sglang": _TORCH,
    "sglang.launch_server": _TORCH,
}
"""Engines, and programs of theirs, that take the host's cores if they are not told; and the
environment variables that tell them."""
VARIABLES = (*_LLAMA, *_LLAMA_PYTHON, *_LIBRARIES)
"""Every environment variable that sets the number somewhere."""
_WORKERS = ("-tp", "--tensor-parallel-size", "-pp", "--pipeline-parallel-size")
"""Several of them, and vLLM's executor sets OMP_NUM_THREADS=1 where nobody has set it
(vllm/executor/multiproc_worker_utils.py, vllm/v1/executor/multiproc_executor.py)."""
_NOT_LLAMA = ("vllm", "sglang", "tgi", "text-generation", "tensorrt", "triton")
_SHELLS = ("sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "su", "runuser", "script", "flock")
"""Programs that take a whole line behind `-c`."""
_REMOTE = ("ssh", "eval")
"""Programs whose words are put together to one line."""
_LINE_FOLLOWS = re.compile(r"-[a-z]{0,3}c[a-z]{0,3}|--command")
CONTAINERS = (
    *("docker", "docker-compose", "podman", "nerdctl", "kubectl", "oc", "crictl", "ctr", "runc"),
    *("crun", "lxc", "lxc-execute", "lxc-attach", "incus", "machinectl", "systemd-nspawn"),
    *("apptainer", "singularity", "enroot"),
)
"""Programs that start another one in a container, where paths have other names."""
BINDERS = ("taskset", "numactl", "hwloc-bind", "likwid-pin", "schedtool", "cpulimit")
"""Programs that choose the CPUs of another one, and leave its other limits as they are."""
_LIMITERS = (
    *CONTAINERS,
    *("systemd-run", "nsenter", "cgexec", "cset", "ssh"),
    *("srun", "sbatch", "salloc", "flux", "bsub", "qsub", "mpirun", "mpiexec"),
    *BINDERS,
    "firejail",
)
"""Programs that start another one under limits of CPUs that are not those of who calls them."""
_WRAPPERS = (
    *_SHELLS,
    *_LIMITERS,
    *("tini", "dumb-init", "docker-init", "catatonit", "init", "systemd", "supervisord", "conmon"),
    *("s6-svscan", "s6-supervise", "runsv", "runsvdir", "containerd-shim", "pause", "busybox"),
    *("sudo", "timeout", "time", "env", "nohup"),
)
"""Programs that wait for another one, which computes."""
_INTERPRETER = re.compile(r"(?:python|pypy|perl|ruby|node)[0-9.]*")
_PYTHON_VALUES = ("-W", "-X")
"""Options of Python behind which neither a script nor a module follows."""
_CUT = "[…]"
"""Stands for words that redaction or capping may have taken out of a line."""
_CAPPED = re.compile(r"sha256:[0-9a-f]{64}\]")
"""How the mark ends that stands where a text was cut (checks.core.redact)."""
_ONE_WORD_HIDDEN = re.compile(
    r"""(?ix)(?<![^\s"';&|(])(?![^\s=]*(?:authorization|cookie))
    (?:--?[a-z][\w.-]*[ =]|[a-z_]\w*=|[^\s]*://)
    \[redacted\](?=[\s"';&|)@]|$)"""
)
"""Where redaction hides a single word; the value of a header goes on to the end of the line."""
_NPROC = ("$(nproc)", "`nproc`", "${nproc}", "$nproc")


@dataclass(frozen=True)
class Asked:
    """What a command or an environment asks for."""

    threads: int | None
    """None where the text is not a number."""
    words: str
    """The words that say so."""
    follows_affinity: bool = False
    """`$(nproc)`: as many as the affinity allows, whatever the quota."""
    cut: bool = False
    """Words are missing that may ask for more."""
    untold: str = ""
    """`generation` or `prompts`: a part of the work that takes the engine's default all the same."""
    by_default: bool = False
    """The engine's own choice, which depends on its other options; nobody asked for it."""


def is_engine(name: str) -> bool:
    """Whether this is the name of an engine, or of its program, whose default is known."""
    return name.lower() in _READS


def engine_in(argv: Sequence[str]) -> str:
    """Find the engine that a command line starts, through `env`, `nice` or a shell; or nothing."""
    before, python = "", False
    for word in _flat(argv):
        name = word.rpartition("/")[2].lower()
        takes_value = before in _PYTHON_VALUES if python else not _LINE_FOLLOWS.fullmatch(before)
        # behind any other option it is a value, such as the name of a model
        value = before.startswith("-") and before.strip("-") and takes_value
        if name in _READS and not value:
            return name
        # its own options end at its first other word
        own = word.startswith("-") or before in _PYTHON_VALUES
        python = name.startswith("python") or (python and own)
        before = word
    return ""


def asked_for(argv: Sequence[str], env: Mapping[str, str], engine: str = "") -> Asked | None:
    """Find how many threads a command line and its environment ask for; None if they do not say.

    The command line wins over the environment; of several numbers the largest is what runs. A
    variable that the engine does not read says nothing.
    """
    words = _flat(argv)
    program = engine_in(argv) or engine.lower()
    reads = _READS.get(program, _LIBRARIES)
    found = _options(words, engine)
    told = {part for _, _, part in found}
    merged = {**env, **dict(_assignments(words))}
    for name in reads:
        # no option of vLLM or SGLang is known to win over the variables
        if name in merged and (reads == _TORCH or (name in _PARTS) not in told):
            # of the levels of OpenMP the first is the outermost
            text = merged[name].partition(",")[0]
            found.append((text, f"{name}={merged[name]}", name in _PARTS))
    numbers = [(_number(text, shown, program), part) for text, shown, part in found]
    real = [
        (asked, part)
        for asked, part in numbers
        if asked.threads is None or asked.threads > 0 or asked.follows_affinity
    ]
    asked = _largest([asked for asked, _ in real])
    if any(word == _CUT or _CAPPED.fullmatch(word) for word in words):
        return replace(asked, cut=True) if asked else Asked(None, _CUT, cut=True)
    if asked is None:
        workers = [text for text, _ in _values(words, _WORKERS) if text not in ("0", "1")]
        if workers and program.startswith("vllm"):
            return Asked(1, "one in each of its worker processes", by_default=True)
        return None
    parts = {part for _, part in real}
    if False not in parts and program in _READS:
        return replace(asked, untold="generation")
    if True not in parts and reads == _LLAMA_PYTHON:
        return replace(asked, untold="prompts")
    return asked


def _largest(found: Sequence[Asked]) -> Asked | None:
    """Give what runs: of several numbers the largest. One that cannot be read decides."""
    unread = [asked for asked in found if asked.threads is None and not asked.follows_affinity]
    if unread:
        return unread[0]
    most = max(found, key=lambda asked: asked.threads or 0, default=None)
    if most is None or not any(asked.follows_affinity for asked in found):
        return most
    # `-t 4 -tb $(nproc)`: whoever knows the affinity takes the larger
    return Asked(most.threads, ", ".join(asked.words for asked in found), follows_affinity=True)


def limiter_in(argv: Sequence[str]) -> str:
    """Find the program of a command line that starts the engine under limits of its own."""
    before, engine = "", False
    for word in _flat(argv):
        name = word.rpartition("/")[2]
        value = engine and before.startswith("-")  # such as the name of a model
        program = "/" not in word or word.endswith(f"bin/{name}")
        if name in _LIMITERS and program and not value:
            return name
        engine = engine or is_engine(name)
        before = word
    return ""


_GPUS = (
    # by tensors: vLLM, SGLang, LMDeploy, TensorRT-LLM, TGI
    (
        *("-tp", "--tp", "--tp-size", "--tp_size"),
        *("--tensor-parallel-size", "--tensor_parallel_size", "--num-shard", "--num_shard"),
    ),
    # by layers
    (
        *("-pp", "--pp", "--pp-size", "--pp_size"),
        *("--pipeline-parallel-size", "--pipeline_parallel_size"),
    ),
    # one process each: torchrun, accelerate
    ("--nproc-per-node", "--nproc_per_node", "--num-processes", "--num_processes"),
)
"""Options that tell over how many GPUs a model is spread; those of different rows multiply."""


@dataclass(frozen=True)
class Spread:
    """Over how many GPUs a command line spreads a model."""

    gpus: int | None
    """None where the text is not a number."""
    words: str
    """The words that say so; empty where nothing does, and it is one."""


def spread_of(argv: Sequence[str]) -> Spread:
    """Find over how many GPUs a command line spreads a model."""
    words = _flat(argv)
    gpus, said = 1, []
    for flags in _GPUS:
        found = _values(words, flags)
        numbers = [int(text) if re.fullmatch(r"[0-9]{1,5}", text) else None for text, _ in found]
        if None in numbers:
            return Spread(None, found[numbers.index(None)][1])
        # given twice, the last one counts
        if found and numbers[-1] is not None and numbers[-1] > 1:
            gpus *= numbers[-1]
            said.append(found[-1][1])
    return Spread(gpus, " ".join(said))


def names_of(argv: Sequence[str]) -> frozenset[str]:
    """Give the names that a process goes by: its program, or the script that an interpreter runs."""
    first = argv[0].rpartition("/")[2].removeprefix("-") if argv else ""
    if not _INTERPRETER.fullmatch(first):
        return frozenset({first} - {""})
    before = ""
    for word in argv[1:]:
        if not word.startswith("-") and before not in _PYTHON_VALUES:
            return frozenset({word.rpartition("/")[2]})
        before = word
    return frozenset()


def is_wrapper(argv: Sequence[str]) -> bool:
    """Whether this only waits for another program: a shell, an init, a container's client."""
    return not names_of(argv).isdisjoint(_WRAPPERS)


def starts(argv: Sequence[str], names: frozenset[str]) -> bool:
    """Whether a command line starts, directly or through others, what goes by one of the names."""
    return not names.isdisjoint(word.rpartition("/")[2] for word in _flat(argv))


def _flat(argv: Sequence[str]) -> list[str]:
    """Open up the line behind `sh -c`: that is what runs. Other texts (a prompt) stay one word."""
    first, *more = argv or ("",)
    if not more and " " in first.strip():
        return _opened(first)
    words: list[str] = []
    shell, line_next = "", False
    for word in argv:
        program = word.rpartition("/")[2]
        if line_next and not word.startswith("-"):
            words += _opened(word)
            shell, line_next = "", False
        elif shell in _REMOTE and " " in word.strip():
            words += _opened(word)
        else:
            words.append(word.strip())
            line_next = line_next or bool(shell and _LINE_FOLLOWS.fullmatch(word))
            shell = program if program in _SHELLS or program in _REMOTE else shell
    return words


def _opened(line: str) -> list[str]:
    try:
        inner = shlex.split(line)
    except ValueError:  # a text with an apostrophe, no line for a shell
        inner = line.split()
    words = [part.strip("\"';") for part in inner]
    if HIDDEN in _ONE_WORD_HIDDEN.sub("", line) or _CAPPED.search(line):
        words.append(_CUT)
    # each line is shorter than the one that held it, so this ends
    return _flat(words)


def _assignments(words: Sequence[str]) -> list[tuple[str, str]]:
    pairs = []
    for word in words:
        name, equals, value = word.removeprefix("--env=").removeprefix("-e").partition("=")
        if equals and name in VARIABLES:
            pairs.append((name, value))
    return pairs


def _options(words: Sequence[str], engine: str) -> list[tuple[str, str, bool]]:
    """Find each number, the words that say it, and whether it is for a part of the work only."""
    llama_like = not any(name in engine.lower() for name in _NOT_LLAMA)
    long_parts = tuple(name for name in _PARTS if name.startswith("--"))
    flags = _LONG + long_parts + (_SHORT_T if llama_like else ())
    found = [
        (text, shown, shown.partition("=")[0].split()[0] in _PARTS)
        for text, shown in _values(words, flags)
    ]
    for word in words:
        name, equals, value = word.partition("=")
        if name in _BARE and equals:
            found.append((value, word, name in _PARTS))
        elif llama_like and re.fullmatch(r"-t[0-9]+", word):
            found.append((word[2:], word, False))
    return found


def _values(words: Sequence[str], flags: Sequence[str]) -> list[tuple[str, str]]:
    """Find what options are given, as the next word or behind `=`, and the words that say it."""
    found = []
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in flags and equals:
            found.append((value, word))
        elif word in flags and index + 1 < len(words):
            found.append((words[index + 1], f"{word} {words[index + 1]}"))
    return found


def _number(text: str, shown: str, program: str) -> Asked:
    if text.lower() in _NPROC:
        return Asked(None, shown, follows_affinity=True)
    if not re.fullmatch(r"[+-]?[0-9]{1,9}(?:,[0-9]{1,9})*", text):
        return Asked(None, shown)
    # llama-bench runs each number of a list, one after another
    number = max(int(part) for part in text.split(","))
    # std::thread::hardware_concurrency()
    all_of_them = number <= 0 and _READS.get(program) == _LLAMA
    return Asked(None if all_of_them else number, shown, follows_affinity=all_of_them)
