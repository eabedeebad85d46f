"""Reads what the processor is and can: counts, instruction sets, frequency, throttling."""

from __future__ import annotations

import re
from collections.abc import Iterable

from checks.core.facts import Blind, Field, Unseen
from checks.core.registry import probe
from checks.core.world import LARGEST_READ_BYTES, World
from checks.machine.cmdline import parameters
from checks.machine.cpulist import count_cpus, cpus_of
from checks.machine.facts import (
    Processor,
    Scaling,
)
from checks.machine.probe.cpu import host_cores, host_cpus

_ROOT = "/sys/devices/system/cpu"
_SMT_STATES = ("on", "off", "forceoff", "notsupported", "notimplemented")
"""Of smt/control (Documentation/ABI/testing/sysfs-devices-system-cpu); since 6.6 also a number."""
_LIMITING = re.compile(
    r"(?:maxcpus|nr_cpus|possible_cpus|nosmp|nosmt|clearcpuid|noxsave|nox2apic"
    r"|disable_cpu_apicid|arm64\.no\w+)(?:=.*)?|mitigations=(?:\S*,)?nosmt(?:,\S*)?"
)
"""Words of Documentation/admin-guide/kernel-parameters.txt that take CPUs or flags away."""
_MOST_WORDS = 20
_LONGEST_WORD = 100
_MOST_FEATURES = 500
"""More than twice as many as any processor has."""


@probe("machine.processor", sees=Processor)
def read_processor(world: World, _: None = None) -> Processor:
    """Read what the processor is and can."""
    cpus = _online(world)
    scaling, unread = _scaling(world, cpus)
    return Processor(
        sockets_count=_sockets(world, cpus),
        cores_count=host_cores(world) or Unseen(Blind.ABSENT, f"{_ROOT} shows no topology"),
        online_cpus=host_cpus(world),
        present_cpus=_present(world),
        smt=_smt(world),
        kernel_words=_kernel_words(world),
        features=_features(world),
        scaling=scaling,
        scaling_unread_cpus=unread,
        throttles_count=_throttles(world, cpus),
        up_s=world.boot_s(),
    )


def _online(world: World) -> list[int]:
    """List the CPUs that are online; empty where the kernel does not."""
    online = world.line(f"{_ROOT}/online")
    return sorted(() if isinstance(online, Unseen) else cpus_of(online) or ())


def _present(world: World) -> int | Unseen:
    present = world.line(f"{_ROOT}/present")
    if isinstance(present, Unseen):
        return present
    return count_cpus(present) or Unseen(Blind.MALFORMED, f"{_ROOT}/present: {present[:40]}")


def _sockets(world: World, cpus: Iterable[int]) -> int | Unseen:
    sockets = set()
    for cpu in cpus:
        path = f"{_ROOT}/cpu{cpu}/topology/physical_package_id"
        socket = world.line(path)
        if isinstance(socket, Unseen):
            return socket
        if not re.fullmatch(r"[0-9]{1,9}", socket):
            # some Arm boards have no numbers for them and say -1
            return Unseen(Blind.UNSUPPORTED, f"{path}: {socket[:40]}")
        sockets.add(socket)
    return len(sockets) or Unseen(Blind.ABSENT, f"{_ROOT}/online names no CPU")


def _smt(world: World) -> Field:
    state = world.line(f"{_ROOT}/smt/control")
    if isinstance(state, Unseen) or state in _SMT_STATES or re.fullmatch(r"[0-9]{1,3}", state):
        return state
    return Unseen(Blind.MALFORMED, f"{_ROOT}/smt/control: {state[:40]}")


def _kernel_words(world: World) -> tuple[str, ...] | Unseen:
    found = parameters(world)
    if isinstance(found, Unseen):
        return found
    words = [word for word in found if _LIMITING.fullmatch(word)]
    return tuple(word[:_LONGEST_WORD] for word in words[:_MOST_WORDS])


def _features(world: World) -> tuple[str, ...] | Unseen:
    """List the flags that every CPU has: of different ones, an engine may run on any."""
    text = world.read("/proc/cpuinfo")
    if isinstance(text, Unseen):
        return text
    if len(text) >= LARGEST_READ_BYTES:
        # what was read ends somewhere within a CPU, and half of its flags are not what it has
        text = text.rpartition("\n\n")[0]
    lines = re.findall(r"^(?:flags|[Ff]eatures)[ \t]*:(.*)$", text, re.MULTILINE)
    if not lines:
        return Unseen(Blind.UNSUPPORTED, "/proc/cpuinfo has neither flags nor Features")
    of_all = set(lines[0].split()).intersection(*({*line.split()} for line in set(lines[1:])))
    good = len(of_all) <= _MOST_FEATURES and all(
        re.fullmatch(r"[a-zA-Z0-9_.:-]{1,40}", word, re.ASCII) for word in of_all
    )
    if not of_all or not good:
        return Unseen(Blind.MALFORMED, "/proc/cpuinfo: its flags are none")
    return tuple(sorted(of_all))


def _scaling(world: World, cpus: Iterable[int]) -> tuple[tuple[Scaling, ...] | Unseen, int]:
    """Group CPUs by driver and governor; and count those of which that could not be read."""
    ratios: dict[tuple[str, str], list[float | Unseen]] = {}
    blind: list[Unseen] = []
    for cpu in cpus:
        folder = f"{_ROOT}/cpu{cpu}/cpufreq"
        driver = _name(world, f"{folder}/scaling_driver")
        governor = _name(world, f"{folder}/scaling_governor")
        if isinstance(driver, Unseen) or isinstance(governor, Unseen):
            blind.append(driver if isinstance(driver, Unseen) else governor)  # type: ignore[arg-type]
            continue
        ratios.setdefault((driver, governor), []).append(_max_ratio(world, folder))
    if not ratios and all(unseen.reason is Blind.ABSENT for unseen in blind):
        return (), 0
    if not ratios:
        return next(unseen for unseen in blind if unseen.reason is not Blind.ABSENT), len(blind)
    return tuple(
        Scaling(
            driver=driver,
            governor=governor,
            governed_cpus=len(each),
            lowest_max_ratio=min(
                (ratio for ratio in each if not isinstance(ratio, Unseen)), default=each[0]
            ),
        )
        for (driver, governor), each in sorted(ratios.items())
    ), len(blind)


def _name(world: World, path: str) -> Field:
    name = world.line(path)
    if isinstance(name, Unseen) or re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]{0,31}", name):
        return name
    return Unseen(Blind.MALFORMED, f"{path}: {name[:40]}")


def _max_ratio(world: World, folder: str) -> float | Unseen:
    limit = _count(world, f"{folder}/scaling_max_freq")
    most = _count(world, f"{folder}/cpuinfo_max_freq")
    if isinstance(limit, Unseen):
        return limit
    if isinstance(most, Unseen):
        return most
    if not most:
        return Unseen(Blind.MALFORMED, f"{folder}/cpuinfo_max_freq: 0")
    return round(limit / most, 4)


def _throttles(world: World, cpus: Iterable[int]) -> int | Unseen:
    """Give the largest of all counters: each CPU of a package counts the same events of it."""
    most: int | Unseen = Unseen(Blind.ABSENT, "the kernel counts no throttling here")
    for cpu in cpus:
        for of in ("core", "package"):
            count = _count(world, f"{_ROOT}/cpu{cpu}/thermal_throttle/{of}_throttle_count")
            if isinstance(count, Unseen):
                if count.reason is Blind.ABSENT:
                    continue
                return count
            most = count if isinstance(most, Unseen) else max(most, count)
    return most


def _count(world: World, path: str) -> int | Unseen:
    text = world.line(path)
    if isinstance(text, Unseen):
        return text
    if not re.fullmatch(r"[0-9]{1,15}", text):
        return Unseen(Blind.MALFORMED, f"{path}: {text[:40]}")
    return int(text)
