"""A log with one record, and one with none."""

from __future__ import annotations

from dataclasses import replace

from checks.core.facts import Blind, Unseen
from checks.core.registry import control
from checks.machine.controls.identity import IDENTITY
from checks.machine.facts import KernelLog, LogSpan

_SPAN = LogSpan(records_count=1, lost_count=0, first_s=0.0, last_s=0.0, complete=True)
_NONE = Unseen(Blind.PERMISSION, "planted")
_LOG = KernelLog(kmsg=_SPAN, journal=_NONE)
_EMPTY = replace(_SPAN, records_count=0)
control("machine.log.kernel", (_LOG, IDENTITY), passes=True)
control("machine.log.kernel", (KernelLog(kmsg=_NONE, journal=_SPAN), IDENTITY), passes=True)
control("machine.log.kernel", (replace(_LOG, kmsg=_EMPTY), IDENTITY), fails="log-empty")
