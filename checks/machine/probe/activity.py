"""Reads what the box is busy with."""

from __future__ import annotations

import re
import time

from checks.core.facts import Blind, Unseen
from checks.core.registry import probe
from checks.core.world import World
from checks.engines.threads import is_engine, names_of
from checks.machine.facts import Activity, Holder
from checks.machine.places import process_text
from checks.machine.probe.cpu import host_cpus

MOST_HOLDERS = 32
LOOKS, BETWEEN_S = 5, 0.01
"""The running threads are counted this often, and the smallest number counts: what runs in each of
these moments works, and does not just wake up."""
_DEVICE = re.compile(r"/dev/(?:nvidia[0-9]+|kfd|dri/renderD[0-9]+)")
"""Whoever computes on a GPU holds one of these open; nvidiactl and nvidia-uvm every tool opens."""
_ONLY_LOOK = frozenset(
    {
        # draw the desktop: the GPU has next to nothing to do for it
        *(
            "X",
            "Xorg",
            "Xwayland",
            "gnome-shell",
            "gnome-session-b",
            "mutter-x11-fram",
            "gdm-x-session",
        ),
        *(
            "kwin_x11",
            "kwin_wayland",
            "plasmashell",
            "sddm-greeter",
            "sddm-greeter-qt",
            "ksmserver",
        ),
        *(
            "weston",
            "sway",
            "Hyprland",
            "labwc",
            "cosmic-comp",
            "cinnamon",
            "xfwm4",
            "lightdm-gtk-gre",
        ),
        # keep the driver loaded, the switches led, the power shared
        *("nvidia-persiste", "nvidia-powerd", "nv-fabricmanage", "nvidia-imex", "nvidia-modprobe"),
        *("systemd-logind", "seatd", "nvidia-sleep.sh"),
        # read temperatures and counters
        *("nvidia-smi", "nv-hostengine", "dcgm-exporter", "dcgmi", "nvsm", "nvsm-core", "nvtop"),
        *("nvitop", "gpustat", "gpud", "nvidia_gpu_expo", "nvidia-device-p", "gpu-feature-dis"),
        *(
            "rocm-smi",
            "amd-smi",
            "rocm_smi_lib",
            "device-metrics-",
            "amd-metrics-exp",
            "amdgpu_top",
        ),
        *("gpuagent", "radeontop", "k8s-device-plug", "telegraf", "node_exporter", "prometheus"),
        *(
            "dcgm-exporter-",
            "datadog-agent",
            "process-agent",
            "otelcol",
            "zabbix_agentd",
            "zabbix_agent2",
        ),
        *("netdata", "collectd", "glances", "btop"),
    }
)
"""Hold a GPU open and do no work on it. As /proc/PID/comm cuts them, at 15 characters."""
_WORKERS = re.compile(r"(?:VLLM::|sglang::|ray::).*")
"""Names that engines give to their worker processes."""


@probe("machine.activity", sees=Activity, activity=True)
def read_activity(world: World, _: None = None) -> Activity | Unseen:
    """Read what runs on the box beside the suite."""
    processes = world.names("/proc")
    if isinstance(processes, Unseen):
        return processes
    own = _own(world)
    if isinstance(own, Unseen):
        return own
    holders: list[Holder] = []
    unlooked = 0
    for pid in processes:
        if not re.fullmatch(r"[0-9]+", pid, re.ASCII) or pid in own:
            continue
        device = _held(world, pid)
        if isinstance(device, Unseen):
            works = _names_an_engine(world, pid)
            unlooked += works is not None
            device = "" if works else None
        if device is not None and _line(world, f"/proc/{pid}/comm") not in _ONLY_LOOK:
            holders.append(Holder(process=process_text(world, pid), device=device))
    # what is surely at work comes first
    holders.sort(key=lambda holder: not holder.device)
    return Activity(
        holders=tuple(holders[:MOST_HOLDERS]),
        holders_left_out_count=len(holders[MOST_HOLDERS:]),
        unlooked_count=unlooked,
        running_count=_running(world),
        host_cpus=host_cpus(world),
    )


def _own(world: World) -> set[str] | Unseen:
    """Give the suite's own processes: this child of it, and the suite itself."""
    pid = world.pid()
    if isinstance(pid, Unseen):
        return pid
    status = world.read(f"/proc/{pid}/status")
    parent = None
    if isinstance(status, str) and world.live:
        parent = re.search(r"^PPid:\s*([0-9]+)$", status, re.MULTILINE)
    return {str(pid), *([parent[1]] if parent else [])}


def _held(world: World, pid: str) -> str | Unseen | None:
    """Find the first GPU that a process holds open; None where it holds none, or has ended."""
    folder = f"/proc/{pid}/fd"
    numbers = world.names(folder)
    if isinstance(numbers, Unseen):
        return numbers if numbers.reason is Blind.PERMISSION else None
    held = (world.link(f"{folder}/{number}") for number in numbers)
    return next((one for one in held if isinstance(one, str) and _DEVICE.fullmatch(one)), None)


def _names_an_engine(world: World, pid: str) -> bool | None:
    """Whether a process that cannot be looked into is an engine by name; None: it is the kernel's."""
    text = world.read(f"/proc/{pid}/cmdline")
    words = tuple(filter(None, text.split("\x00"))) if isinstance(text, str) else ()
    if not words:
        return None
    return bool(_WORKERS.fullmatch(words[0])) or any(is_engine(name) for name in names_of(words))


def _line(world: World, path: str) -> str:
    text = world.line(path)
    return text if isinstance(text, str) else ""


def _running(world: World) -> int | Unseen:
    """Count the threads that run or wait for a CPU, less this one.

    The fourth field of /proc/loadavg says it at once, on every kernel. A share of /proc/stat needs
    two looks a good time apart, which a recorded tree does not have; /proc/pressure is not built
    into every kernel, and shows nothing where each of many threads has a CPU for itself; the
    averages of /proc/loadavg speak of what ended minutes ago.
    """
    path = "/proc/loadavg"
    least: int | None = None
    for look in range(LOOKS if world.live else 1):
        if look:
            time.sleep(BETWEEN_S)
        text = world.line(path)
        if isinstance(text, Unseen):
            return text
        found = re.fullmatch(r"(?:\S+ ){3}([0-9]{1,9})/[0-9]{1,9} [0-9]{1,10}", text, re.ASCII)
        if not found:
            return Unseen(Blind.MALFORMED, f"{path}: {text[:60]!r}")
        count = max(int(found[1]) - 1, 0)
        least = count if least is None else min(least, count)
    assert least is not None  # noqa: S101 - for the type checker
    return least
