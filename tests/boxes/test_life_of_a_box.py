"""A box from its first day on: adopted, run, accepted, run again; then a part of it is swapped."""

import pytest

from checks.cli import main
from tests.boxes.test_healthy_boxes import BOXES
from tests.support.boxes import another_user, h100_box
from tests.support.runs import main_as

KEYS = ("architecture", "virtualization", "container", "product_name", "memory_total_bytes")


def folders(folder):
    return ("--expected", str(folder / "expected"), "--ledger-dir", str(folder / "ledgers"))


def adopt(folder, tree):
    assert main(["adopt", "planted", *folders(folder), "--root", str(tree)]) == 0


def accept(folder, run, *words):
    return main(["accept", *folders(folder), str(run.ledger_path), *words])


@pytest.mark.parametrize("name", BOXES)
def test_each_kind_of_box_is_confirmed_after_it_was_adopted_and_accepted(suite, tmp_path, name):
    make = BOXES[name][0]
    tree = make().write(tmp_path / "tree")
    adopt(tmp_path, tree)
    first = suite.run(tmp_path, root=tree)
    assert first.code in (0, 10), first.out
    assert first.with_verdict("fail", "unknown") == []
    unconfirmed = first.ledger["counts"]["unconfirmed"]
    # Windows shows its Linux no product name, and then there is no such key
    assert unconfirmed >= len(KEYS) - (name == "WSL")
    assert accept(tmp_path, first) == 0
    second = suite.run(tmp_path, root=tree)
    assert second.code == 0, second.out
    assert second.ledger["counts"]["unconfirmed"] == 0
    assert second.ledger["counts"]["confirmed"] == first.ledger["counts"]["confirmed"] + unconfirmed
    assert accept(tmp_path, second) == 0


@pytest.mark.parametrize("other", [False, True], ids=["as this user", "as another"])
def test_this_machine_is_confirmed_after_it_was_adopted_and_accepted(suite, open_path, other):
    uid = another_user() if other else 0
    code, said = main_as(uid, open_path, "adopt", "planted", *folders(open_path))
    assert code in (0, 10), said
    first = suite.run(open_path, uid=uid)
    assert first.ledger["run"]["kind"] == "run"
    assert first.ledger["counts"]["unconfirmed"] >= 3
    # what this user may not see is optional by now, and says so
    assert all(row["effect"] == "none" for row in first.ledger["findings"]), first.out
    code, said = main_as(uid, open_path, "accept", "planted", *folders(open_path))
    assert code == 0, said
    second = suite.run(open_path, uid=uid)
    assert second.ledger["counts"]["unconfirmed"] == 0
    assert second.code == 0, second.out


def half_the_memory():
    box = h100_box()
    return box.put(
        "/proc/meminfo",
        "MemTotal:       263967744 kB\nMemAvailable:   250000000 kB\nSwapTotal:             0 kB\nSwapFree:              0 kB\n",
    )


def with_memory(box, gib):
    root = "/sys/devices/system/memory"
    box.put(f"{root}/block_size_bytes", f"{2 * 2**30:x}\n")
    for number in range(gib // 2):
        box.put(f"{root}/memory{number}/online", "1\n")
    return box


def test_a_swap_is_unknown_until_it_is_accepted_and_the_old_part_brings_its_value_back(
    suite, tmp_path
):
    total = "machine.memory.total"
    before = with_memory(h100_box(), 512).write(tmp_path / "before")
    after = with_memory(half_the_memory(), 256).write(tmp_path / "after")
    adopt(tmp_path, before)
    accept(tmp_path, suite.run(tmp_path, root=before))
    swapped = suite.run(tmp_path, root=after)
    finding = swapped.finding(total)
    assert (finding["verdict"], finding["reason"]) == ("unknown", "premise-changed")
    assert finding["observed"]["memory_total_bytes"] == 263_967_744 * 1024
    assert swapped.code == 10
    # nothing else rests on the memory
    assert [row for row in swapped.with_verdict("unknown") if not row.startswith(total)] == []
    assert accept(tmp_path, swapped, total) == 0
    for tree in (after, before, after):
        run = suite.run(tmp_path, root=tree)
        assert run.code == 0, run.out
        assert run.ledger["counts"]["unconfirmed"] == 0


def test_a_fault_after_the_first_day_fails_against_what_was_measured_and_is_not_accepted(
    suite, tmp_path
):
    tree = with_memory(h100_box(), 512).write(tmp_path / "tree")
    adopt(tmp_path, tree)
    accept(tmp_path, suite.run(tmp_path, root=tree))
    # the modules are those that they were, and the kernel manages less of them
    faulty = with_memory(half_the_memory(), 512).write(tmp_path / "faulty")
    run = suite.run(tmp_path, root=faulty)
    finding = run.finding("machine.memory.total")
    assert (finding["verdict"], finding["basis"]) == ("fail", "measured")
    assert finding["source"].startswith("sha256:")
    assert run.code == 1
    assert accept(tmp_path, run, "machine.memory.total", "--change") == 1
    assert suite.run(tmp_path, root=faulty).code == 1
