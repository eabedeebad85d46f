"""Where a served model is downloaded to, as far as the profile says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard

from checks.core.profile import Profile, Serve
from checks.engines.threads import CONTAINERS, limiter_in

_OPTIONS = ("--download-dir", "--download_dir")
"""Of vLLM and SGLang: handed to the hub's library as the folder of its cache."""
_VARIABLES = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME")
ELSEWHERE = "?"
"""Stands for a folder inside a container, which has another name out here, or none."""


def is_hub_model(model: str | None) -> TypeGuard[str]:
    """Whether this names a model of the hub, and not a file or folder."""
    return bool(model) and not str(model).startswith(("/", "~", "."))


def hub_cache(environ: Mapping[str, str]) -> str | None:
    """Give the folder that an environment names, in the order of huggingface_hub; None if it is silent."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environ.get(name):
            return environ[name]
    if environ.get("HF_HOME"):
        return f"{environ['HF_HOME']}/hub"
    if environ.get("XDG_CACHE_HOME"):
        return f"{environ['XDG_CACHE_HOME']}/huggingface/hub"
    return None


def declared_caches(profile: Profile) -> tuple[str | None, ...]:
    """List the folders that the profile's hub models go to; None is what this box's environment says.

    `paths.model_cache` speaks for all of them.
    """
    if profile.paths.model_cache:
        return (profile.paths.model_cache,)
    named = {_named(serve) for serve in profile.serve if is_hub_model(serve.model)}
    return tuple(sorted(named, key=lambda folder: folder or "")) or (None,)


def _named(serve: Serve) -> str | None:
    words = serve.argv
    environ = dict(serve.env)
    folder = None
    for before, word in zip(("", *words), words, strict=False):
        name, equals, value = word.partition("=")
        if before in _OPTIONS:
            folder = word
        elif equals and name in _OPTIONS:
            folder = value
        elif equals and name in _VARIABLES:
            environ[name] = value
    folder = folder or hub_cache(environ)
    if folder is None:
        return None
    inside = serve.where.startswith("container:") or limiter_in(words) in CONTAINERS
    return ELSEWHERE if inside else folder.rstrip("/") or "/"
