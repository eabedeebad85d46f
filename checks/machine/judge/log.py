"""Whether the kernel's log can be read."""

from __future__ import annotations

from checks.core.expectation import Case
from checks.core.facts import BOX, Unseen
from checks.core.finding import Judgement, fail, not_applicable, ok, unknown
from checks.core.judging import always
from checks.core.registry import check
from checks.core.units import span_text
from checks.core.verdict import Reason
from checks.machine.facts import Identity, KernelLog, LogSpan

LATE_S = 60.0
"""A journal starts some seconds after the kernel, and takes in what the kernel said before."""


@check(
    "machine.log.kernel",
    sees=(KernelLog, Identity),
    cases=lambda _: [Case(subject=BOX, wanted=always("a kernel says something when it starts"))],
    causes={
        "log-empty": "the kernel's log can be read and nothing stands in it, so no fault of a GPU, "
        "a disk or memory would be found there",
    },
)
def kernel_log_can_be_read(seen: KernelLog, box: Identity, _: None = None) -> Judgement:
    """The kernel's log can be read.

    Looks at /dev/kmsg, and at the journal of the system in /var/log/journal and /run/log/journal: not
    at what stands there, but whether this user may read it and how far back it reaches. Fails where
    it can be read and is empty. Where it may not be read, this is unknown and not empty: Xid errors
    of GPUs, errors of disks and killed processes stand there and nowhere else.
    Does not apply in a container: there the log is the host's, whoever may read it.
    What to do: run as root, or as a user of the group systemd-journal or adm; or set
    kernel.dmesg_restrict = 0; or say in [checks.optional] that this box goes without it, as
    `preflight adopt` does.
    """
    if not isinstance(box.container, Unseen) and box.container != "none":
        return not_applicable(f"the kernel's log is the host's: this is {box.container}")
    spans = {"/dev/kmsg": seen.kmsg, "journal": seen.journal}
    for way, span in spans.items():
        if isinstance(span, LogSpan) and span.records_count:
            return _readable(way, span)
    reasons = tuple(f"{way}: {span}" for way, span in spans.items() if isinstance(span, Unseen))
    if isinstance(seen.kmsg, LogSpan) and not isinstance(box.container, Unseen):
        return fail(
            "log-empty",
            "/dev/kmsg can be read and holds no record",
            remedy="look at `dmesg` and `journalctl -k` as root; a kernel whose log stays empty was "
            "built without one (CONFIG_PRINTK): boot another, and rerun",
            observed={"records_count": 0},
            evidence=reasons,
        )
    return unknown(
        Reason.NOT_OBSERVABLE,
        f"this user may not read the kernel's log: {'; '.join(reasons) or 'it is empty'}",
        remedy="run as root, or add this user to the group adm or systemd-journal (`usermod -aG adm "
        "USER`, then log in again), or set `sysctl kernel.dmesg_restrict=0`; or say in "
        "[checks.optional] of its profile that this box goes without it, as `preflight adopt` does; "
        "rerun",
        evidence=reasons,
        # with that right it would be seen, whatever is the matter with the journal
        unseen=seen.kmsg if isinstance(seen.kmsg, Unseen) else None,
    )


def _readable(way: str, span: LogSpan) -> Judgement:
    notes: list[str] = []
    if span.lost_count:
        notes.append(
            f"{span.lost_count} records of this boot are overwritten, the oldest first; `journalctl "
            "-k` may still have them, and `log_buf_len=` on the kernel's command line keeps more"
        )
    elif span.lost_count is None and span.first_s is not None and span.first_s > LATE_S:
        notes.append(f"it begins {span_text(span.first_s)} after boot: what came before is gone")
    if not span.complete:
        notes.append("it is longer than what was counted")
    observed = {"records_count": span.records_count}
    return ok(f"{span.records_count} records by {way}", observed=observed, notes=tuple(notes))
