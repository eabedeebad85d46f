"""The judge of the kernel's log, with data alone."""

from dataclasses import replace

import pytest

from checks.core.facts import Blind, Unseen
from checks.core.finding import Judgement
from checks.core.verdict import Reason, Verdict
from checks.machine.facts import Identity, KernelLog, LogSpan
from checks.machine.judge import log as judge
from tests.support.judging import UNSEEN

BOX_SEEN = Identity(**(dict.fromkeys(Identity.__dataclass_fields__, "none") | {"evidence": ()}))
SPAN = LogSpan(records_count=7, lost_count=0, first_s=0.0, last_s=9.0, complete=True)
EMPTY = LogSpan(records_count=0, lost_count=0, first_s=None, last_s=None, complete=True)
JOURNAL = replace(SPAN, records_count=5, lost_count=None)
ABSENT = Unseen(Blind.ABSENT, "/dev/kmsg is absent")


def judged(
    kmsg: LogSpan | Unseen, journal: LogSpan | Unseen = UNSEEN, container: object = "none"
) -> Judgement:
    box = replace(BOX_SEEN, container=container)
    return judge.kernel_log_can_be_read(KernelLog(kmsg=kmsg, journal=journal), box)


def test_a_log_that_can_be_read_passes_by_whichever_way():
    said = judged(SPAN)
    assert (said.verdict, said.says, said.notes) == (Verdict.PASS, "7 records by /dev/kmsg", ())
    assert said.observed == {"records_count": 7}
    assert judged(SPAN, JOURNAL).says == "7 records by /dev/kmsg"
    assert judged(UNSEEN, JOURNAL).says == "5 records by journal"
    assert judged(EMPTY, JOURNAL).says == "5 records by journal"
    assert judged(replace(SPAN, records_count=1)).verdict is Verdict.PASS


def test_a_log_that_is_empty_fails_and_one_that_may_not_be_read_is_unknown():
    said = judged(EMPTY)
    assert said.cause == "log-empty"
    assert said.observed == {"records_count": 0}
    assert said.evidence == (f"journal: {UNSEEN}",)
    said = judged(UNSEEN)
    assert (said.verdict, said.reason) == (Verdict.UNKNOWN, Reason.NOT_OBSERVABLE)
    for words in ("adm", "systemd-journal", "dmesg_restrict"):
        assert words in said.remedy
    assert said.evidence == (f"/dev/kmsg: {UNSEEN}", f"journal: {UNSEEN}")
    assert str(UNSEEN) in said.says
    assert said.blind is UNSEEN.reason
    empty = judged(UNSEEN, replace(JOURNAL, records_count=0))
    assert empty.verdict is Verdict.UNKNOWN
    assert empty.evidence == (f"/dev/kmsg: {UNSEEN}",)


def test_an_empty_log_where_a_container_cannot_be_told_is_unknown():
    assert judged(EMPTY, container=UNSEEN).verdict is Verdict.UNKNOWN
    assert judged(EMPTY, EMPTY, container=UNSEEN).says.endswith("it is empty")


@pytest.mark.parametrize("kmsg", [ABSENT, EMPTY, UNSEEN, SPAN])
def test_in_a_container_the_log_is_the_hosts_whoever_may_read_it(kmsg):
    said = judged(kmsg, JOURNAL, container="docker")
    assert said.verdict is Verdict.NOT_APPLICABLE
    assert said.says == "the kernel's log is the host's: this is docker"
    assert judged(kmsg, JOURNAL, container="podman").verdict is Verdict.NOT_APPLICABLE


@pytest.mark.parametrize(("lost", "noted"), [(0, False), (1, True)])
def test_an_overwritten_beginning_is_noted(lost, noted):
    said = judged(replace(SPAN, lost_count=lost))
    assert said.verdict is Verdict.PASS
    assert ["1 records of this boot are overwritten" in note for note in said.notes] == [
        True
    ] * noted


@pytest.mark.parametrize(
    ("first_s", "noted"), [(None, False), (-9.0, False), (60.0, False), (61.0, True)]
)
def test_a_journal_that_begins_long_after_boot_is_noted(first_s, noted):
    said = judged(UNSEEN, replace(JOURNAL, first_s=first_s))
    assert ["begins 1 min 1 s after boot" in note for note in said.notes] == [True] * noted
    # the ring counts what it has lost, so a late first record of it says nothing
    assert judged(replace(SPAN, first_s=first_s)).notes == ()


def test_a_log_that_was_too_long_to_be_counted_is_noted():
    assert judged(replace(SPAN, complete=False)).notes == ("it is longer than what was counted",)
