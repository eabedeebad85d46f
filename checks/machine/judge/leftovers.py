"""Whether an environment hides GPUs, or makes them pass for others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from checks.core.codec import Json
from checks.core.expectation import Basis, Case, Expected, Wanted
from checks.core.facts import BOX, Blind, Unseen
from checks.core.finding import Judgement, fail, not_applicable, not_seen, ok, unknown
from checks.core.judging import always, hardware_case, or_always
from checks.core.place import THIS
from checks.core.profile import Serve
from checks.core.registry import check
from checks.core.verdict import Reason
from checks.engines.threads import engine_in
from checks.machine.facts import (
    Gpu,
    Gpus,
    Identity,
    Leftover,
    Leftovers,
    Mps,
    VisibilityWanted,
)
from checks.machine.visible import Among, Shown, read_list

CUDA, HIP, ROCR = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
VISIBILITY = (CUDA, HIP, ROCR)
OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"
_LARGEST_MAJOR, _LARGEST_MINOR = 63, 255
"""Larger parts of a version are refused (libhsakmt/src/topology.c of ROCR-Runtime)."""
NEED_GPUS = ("vllm", "sglang")
"""Engines that are hardly ever meant to run without a GPU."""


class _Chosen(NamedTuple):
    """Which GPUs of one vendor a variable leaves visible."""

    variable: str
    value: str
    shown: Shown
    most: int | None
    """How many there are to choose from; None where that is not known."""


def _nvidia(place: Leftover, env: dict[str, str], seen: Gpus) -> _Chosen | None:
    gpus = seen.of("nvidia")
    if not gpus or CUDA not in env:
        return None
    # the driver of a container lists what it was given; one that lists nothing holds nothing
    uuids = place.nvidia_uuids or Unseen(Blind.ABSENT, "the driver lists no GPU")
    most = len(gpus) if isinstance(uuids, Unseen) else len(uuids)
    among = Among(most=most, uuids=uuids, cuda=True)
    return _Chosen(CUDA, env[CUDA], read_list(env[CUDA], among), most)


def _amd(env: dict[str, str], seen: Gpus) -> _Chosen | None:
    """ROCR_VISIBLE_DEVICES chooses among all; HIP_VISIBLE_DEVICES numbers anew what that leaves."""
    gpus = seen.of("amd")
    if not gpus:
        return None
    most: int | None = len(gpus)
    if not isinstance(seen.kfd_gpus_count, Unseen):
        most = seen.kfd_gpus_count or most  # each partition of a GPU has a number of its own
    elif seen.kfd_gpus_count.reason is not Blind.ABSENT:
        most = None
    first = _amd_list(ROCR, env, most, gpus) if ROCR in env else None
    if first and (first.shown.wrong or not first.shown.count):
        return first
    name = _hip_variable(env, seen)
    if not name:
        return first
    if first is None:
        return _amd_list(name, env, most, gpus)
    left = _amd_list(name, env, None if most is None else first.shown.count, gpus)
    if not left.shown.wrong:
        return left
    wrong = f"{left.shown.wrong} (of what {ROCR}={env[ROCR]} leaves)"
    return left._replace(shown=replace(left.shown, wrong=wrong))


def _hip_variable(env: dict[str, str], seen: Gpus) -> str:
    """HIP reads CUDA's variable where its own is not set, and takes an empty one for one not set."""
    if env.get(HIP):
        return HIP
    return CUDA if env.get(CUDA) and not seen.of("nvidia") else ""


def _amd_list(name: str, env: dict[str, str], most: int | None, gpus: tuple[Gpu, ...]) -> _Chosen:
    among = Among(most=most, uuids=tuple(gpu.uuid for gpu in gpus), cuda=False)
    return _Chosen(name, env[name], read_list(env[name], among), most)


def _visibility(expected: Expected) -> Iterator[Case[VisibilityWanted]]:
    places = [VisibilityWanted(place=THIS, needs_gpus=False)]
    declared = bool(expected.profile.hardware.gpus)
    for serve in expected.profile.serve:
        # what the profile itself hides is meant so
        needs = declared and _needs_gpus(serve) and not set(VISIBILITY) & set(serve.env)
        places.append(VisibilityWanted(place=serve.name, needs_gpus=needs))
    for place in places:
        rule = "a variable that chooses GPUs names some that are there"
        wanted = Wanted(value=place, basis=Basis.INVARIANT, source=rule)
        yield Case(subject=place.place, wanted=wanted)


def _needs_gpus(serve: Serve) -> bool:
    return (serve.engine.lower() or engine_in(serve.argv)) in NEED_GPUS


@check(
    "machine.leftovers.visibility",
    sees=(Leftovers, Gpus),
    cases=_visibility,
    premise=("gpu",),
    blocked_by=("machine.devices.driver",),
    causes={
        "no-such-gpu": "a variable names a GPU that is not here, or one twice: nothing behind it is "
        "visible, and mostly nothing at all",
        "all-hidden": "a variable hides every GPU from an engine that needs one",
    },
)
def visible_gpus_are_there(seen: Leftovers, gpus: Gpus, wanted: VisibilityWanted) -> Judgement:
    """The variables that choose GPUs name some that are there.

    Looks at CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES in the environment
    of the suite, and of the process of each [[serve]] (where that cannot be read, at the profile's
    env). Fails where one names a number that no GPU here has (a container, and ROCR_VISIBLE_DEVICES
    for HIP, number anew from 0), a UUID that none has, or the same number twice; and where every GPU
    is hidden from vLLM or SGLang on a box whose profile declares GPUs, and the profile did not say
    so. That some are hidden is a note.
    What to do: unset the variable where it is set (shell profile, unit, image), or name GPUs that
    `nvidia-smi -L` or `rocminfo` shows; rerun.
    """
    place = next((one for one in seen.places if one.place == wanted.place), None)
    if place is None:
        says = f"the environment of {wanted.place} was not looked at"
        return unknown(Reason.NOT_OBSERVABLE, says)
    proxies = tuple(_proxy_notes(place.proxies))
    if not gpus.gpus:
        says = "no GPU of NVIDIA or AMD on the PCI bus"
        return replace(not_applicable(says), notes=proxies)
    env = place.environment
    if isinstance(env, Unseen):
        return not_seen("environment", env)
    both = (_nvidia(place, env, gpus), _amd(env, gpus))
    found = [each for each in both if each]
    observed = {name: env[name] for name in VISIBILITY if name in env}
    evidence = (f"looked at {place.source}", *(f"{name}={env[name]}" for name in sorted(env)))
    notes = (
        *(note for each in found for note in _hidden_notes(each, env)),
        *_other_notes(place, env, found),
        *proxies,
    )
    for each in found:
        if each.shown.wrong:
            return fail(
                "no-such-gpu",
                f"{each.variable}={each.value} names {each.shown.wrong}",
                remedy=f"unset {each.variable} in {place.source}, or name GPUs that are there "
                "(`nvidia-smi -L`, `rocminfo`); start anew what runs there, and rerun",
                observed=observed,
                expected={"names": "GPUs that are there"},
                notes=notes,
                evidence=evidence,
            )
    hidden = [each for each in found if not each.shown.count]
    if hidden and wanted.needs_gpus:
        return fail(
            "all-hidden",
            f"{hidden[0].variable}={hidden[0].value or '(empty)'} hides every GPU",
            remedy=f"unset {hidden[0].variable} in {place.source}, or write it into the profile's env "
            "if it is meant so; start anew what runs there, and rerun",
            observed=observed,
            expected={"names": "GPUs that are there"},
            notes=notes,
            evidence=evidence,
        )
    says = ", ".join(f"{each.variable}={each.value or '(empty)'}" for each in found)
    return ok(says or "no variable hides a GPU", observed=observed, notes=notes, evidence=evidence)


def _hidden_notes(each: _Chosen, env: dict[str, str]) -> Iterator[str]:
    for note in each.shown.notes:
        yield f"{each.variable}={each.value}: {note}"
    if each.shown.wrong or each.most is None:
        return
    if not each.shown.count:
        yield f"{each.variable}={each.value or '(empty)'} hides every GPU; unset it if one is needed"
    elif each.shown.count < each.most:
        says = f"{each.variable}={each.value} shows {each.shown.count} of {each.most} GPUs"
        if not each.shown.others:
            rest = [str(index) for index in range(each.most) if index not in each.shown.indices]
            says += f" and hides {', '.join(rest)}"
            if each.variable == CUDA and env.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
                says += " (in CUDA's order, fastest first, and not in that of nvidia-smi)"
        job = env.get("SLURM_JOB_ID")
        yield f"{says}; Slurm's job {job} has set it" if job else says


def _other_notes(place: Leftover, env: dict[str, str], found: list[_Chosen]) -> Iterator[str]:
    given = env.get("NVIDIA_VISIBLE_DEVICES", "")
    entries = [entry.strip() for entry in given.split(",") if entry.strip()]
    count = len(entries)
    named = re.fullmatch(r"(?:[0-9]{1,3}|(?:GPU|MIG)-\S+)", entries[0]) if entries else None
    for each in found:
        if each.variable == CUDA and named and not each.shown.wrong:
            beyond = [str(index) for index in each.shown.indices if index >= count]
            if beyond:
                yield (
                    f"a container that was given NVIDIA_VISIBLE_DEVICES={given} numbers its GPUs "
                    f"from 0 to {count - 1}, and {CUDA} names {', '.join(beyond)}: if this is one, "
                    "nothing from there on is visible"
                )
    if env.get("GPU_DEVICE_ORDINAL"):
        yield f"GPU_DEVICE_ORDINAL={env['GPU_DEVICE_ORDINAL']} chooses GPUs for OpenCL"
    for entry in place.libraries:
        if "/stubs" in entry:
            yield f"{entry} holds libraries to link with, which stand in for the driver and do nothing"


def _proxy_notes(proxies: dict[str, str]) -> Iterator[str]:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        small, large = proxies.get(name), proxies.get(name.upper())
        if small and large and small != large:
            yield (
                f"{name} is {small} and {name.upper()} is {large}: which of them counts depends on "
                "the program; set both to the same"
            )


@check(
    "machine.leftovers.gfx-override",
    sees=(Gpus, Leftovers),
    cases=lambda _: (
        Case(subject=BOX, wanted=always("ROCm runs the code of the GPU that is there")),
    ),
    premise=("gpu",),
    finds="no GPU of AMD on the PCI bus",
    causes={
        "amd-hsa-override": "HSA_OVERRIDE_GFX_VERSION makes ROCm take this GPU for one of another "
        "generation, or cannot be read: kernels crash, or nothing starts",
    },
)
def gfx_not_overridden(seen: Gpus, left: Leftovers, wanted: None) -> dict[str, Judgement]:  # noqa: ARG001 - as any judge
    """No variable makes ROCm take a GPU for one of another generation.

    Looks at HSA_OVERRIDE_GFX_VERSION, and at HSA_OVERRIDE_GFX_VERSION_N of the GPU's node, in the
    environment of the suite and of each [[serve]], and at gfx_target_version of AMD's kernel driver.
    Fails where its first number is another than that of the GPU, or where it is no version, with
    which ROCm does not start. Another version of the same generation (10.3.0 on gfx1031) is a known
    way to run on a GPU without support, and a note; so is one on a GPU that the place does not use.
    What to do: unset it where it is set (shell profile, unit, image), start anew what runs there,
    and rerun.
    """
    said: dict[str, Judgement] = {}
    for gpu in seen.of("amd"):
        judgement = _overridden(seen, gpu, left)
        said[gpu.address] = replace(judgement, premise=(f"gpu[{gpu.address}]",))
    return said


def _overridden(seen: Gpus, gpu: Gpu, left: Leftovers) -> Judgement:
    notes: list[str] = []
    found: list[str] = []
    doubt: Judgement | None = None
    real = None if isinstance(gpu.gfx, Unseen) else _version(gpu.gfx)
    for place in left.places:
        env = place.environment
        if isinstance(env, Unseen):
            doubt = not_seen(f"environment of {place.place}", env)
            continue
        own = (f"{OVERRIDE}_{node}" for node in gpu.kfd_nodes)
        name = next((name for name in (*own, OVERRIDE) if name in env), "")
        if not name:
            continue
        text, version = f"{name}={env[name]}", _version(env[name])
        found.append(f"{place.source}: {text}")
        if version is None:
            return _unset(f"{text} is no version such as 11.0.0", name, place, tuple(found))
        if real is None:
            says = f"{text} [{place.place}], and what this GPU is was not seen: {gpu.gfx}"
            doubt = unknown(Reason.NOT_OBSERVABLE, says, evidence=tuple(found))
        elif version[0] != real[0] and _is_used(seen, gpu, env):
            says = f"{text} on {_gfx(real)}, which is of another generation"
            return _unset(says, name, place, tuple(found))
        elif version != real:
            fits = (
                "a known way, which works for some pairs" if version[0] == real[0] else "not used"
            )
            notes.append(f"{text} [{place.place}] on {_gfx(real)}: {fits}")
    if doubt:
        return doubt
    observed = {} if real is None else {"gfx": _gfx(real)}
    says = "is not taken for another" if not notes else notes[0]
    return ok(says, observed=observed, notes=tuple(notes), evidence=tuple(found))


def _unset(says: str, name: str, place: Leftover, evidence: tuple[str, ...]) -> Judgement:
    return fail(
        "amd-hsa-override",
        says,
        remedy=f"unset {name} in {place.source} (shell profile, unit, image), start anew what runs "
        "there, and rerun",
        observed={"override": evidence[-1].rpartition(": ")[2]},
        evidence=evidence,
    )


def _version(text: str) -> tuple[int, int, int] | None:
    """Read a version as ROCm's libhsakmt does (src/topology.c); nothing may stand behind it."""
    found = re.fullmatch(r"\s*([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})", text)
    if not found:
        return None
    major, minor, step = (int(part) for part in found.groups())
    fits = major <= _LARGEST_MAJOR and max(minor, step) <= _LARGEST_MINOR
    return (major, minor, step) if fits else None


def _gfx(version: tuple[int, int, int]) -> str:
    return f"gfx{version[0]}{version[1]:x}{version[2]:x}"


def _is_used(seen: Gpus, gpu: Gpu, env: dict[str, str]) -> bool:
    """Whether a place may use a GPU: neither hidden, nor beside a card the processor's own."""
    gpus = seen.of("amd")
    if gpu.integrated and not all(one.integrated for one in gpus):
        return False
    order = sorted((int(node), one.address) for one in gpus for node in one.kfd_nodes)
    visible = [address for _, address in order]
    for name in (ROCR if ROCR in env else "", _hip_variable(env, seen)):
        if not name:
            continue
        shown = _amd_list(name, env, len(visible), gpus).shown
        if shown.others:
            return True  # chosen by UUID: which of them that is, is not followed here
        visible = [visible[index] for index in shown.indices]
    return gpu.address in visible or not order


def _mps(expected: Expected) -> Iterator[Case[bool | None]]:
    case = hardware_case(expected, "machine.leftovers.mps", "mps", bool, bool)
    yield or_always(case, "whether it runs is a choice")


@check(
    "machine.leftovers.mps",
    sees=(Mps, Gpus, Identity),
    cases=_mps,
    premise=("container",),
    causes={
        "mps-running": "NVIDIA's Multi-Process Service runs, and the profile says that it does not",
        "mps-not-running": "the profile wants NVIDIA's Multi-Process Service, and it does not run",
    },
)
def mps_as_declared(seen: Mps, gpus: Gpus, box: Identity, wanted: bool | None) -> Judgement:  # noqa: FBT001 - as any judge
    """NVIDIA's Multi-Process Service runs where it is declared, and nowhere else.

    Looks at the names of all processes for nvidia-cuda-mps-control and its server. Fails where one
    runs and the profile's hardware.mps is false, or none runs and it is true. With none declared, a
    daemon is a note: every CUDA program of its user goes through it, and one that crashes takes the
    others along.
    What to do: `echo quit | nvidia-cuda-mps-control` ends it, `nvidia-cuda-mps-control -d` starts
    it, both as its user; rerun.
    """
    if wanted is None and not gpus.of("nvidia"):
        return not_applicable("no GPU of NVIDIA on the PCI bus")
    observed: dict[str, Json] = {"processes": [*seen.processes]}
    expected: dict[str, Json] = {} if wanted is None else {"runs": "yes" if wanted else "no"}
    if seen.processes:
        says = f"MPS runs: {seen.processes[0]}"
        quit_it = "`echo quit | nvidia-cuda-mps-control` as its user"
        if wanted is not None and not wanted:
            return fail(
                "mps-running",
                f"{says}; the profile says that it does not",
                remedy=f"{quit_it} ends it; keep whatever starts it (a unit, a job's prologue) from "
                "doing so; rerun",
                observed=observed,
                expected=expected,
            )
        note = (
            "CUDA programs of its user go through MPS, and one that crashes takes the others along; "
            f"{quit_it} ends it"
        )
        notes = (note,) if wanted is None else ()
        return ok(says, observed=observed, expected=expected, notes=notes)
    hidden = seen.others_hidden or seen.hidden_count > 0 or box.container != "none"
    if wanted is not None and hidden:
        return unknown(
            Reason.NOT_OBSERVABLE,
            "no process of MPS is among those that can be seen here, and others cannot",
            remedy="run as root on the host itself, outside of any container; rerun",
            observed=observed,
            expected=expected,
        )
    if wanted:
        return fail(
            "mps-not-running",
            "no process of MPS runs",
            remedy="`nvidia-cuda-mps-control -d` starts it, as the user whose programs are to share "
            "GPUs; have it started at boot (a unit); rerun",
            observed=observed,
            expected=expected,
        )
    says = "no process of MPS is seen here" if hidden else "no process of MPS runs"
    return ok(says, observed=observed, expected=expected)
