"""Leftovers in the environments of planted boxes, and of a real run."""

from __future__ import annotations

import pytest

from tests.support.boxes import (
    ENGINE,
    Box,
    add_gpu,
    amd_box,
    h100_box,
    plain_box,
    with_driver,
    with_kfd_node,
)

SEES, GFX, MPS = (
    "machine.leftovers.visibility",
    "machine.leftovers.gfx-override",
    "machine.leftovers.mps",
)
CHAT = f"""
[[serve]]
name = "chat"
engine = "vllm"
command = "vllm serve org/model"
where = "pid:{ENGINE}"
"""


def judged(suite, folder, box: Box, profile: str | None = None, **environ: str):
    box.recorded["environ"] |= environ
    return suite.run(folder, root=box.write(folder / "tree"), profile=profile)


@pytest.mark.parametrize(
    ("value", "cause", "noted"),
    [
        ("0,1,2,3,4,5,6,7", "", False),
        ("0,7", "", True),
        ("0,8", "no-such-gpu", False),
        ("GPU-00000000-0000-4000-8000-000000000003", "", True),
        ("GPU-00000000-0000-4000-8000-000000000009", "no-such-gpu", False),
        ("GPU-0000", "no-such-gpu", False),
        ("MIG-11111111-0000-4000-8000-000000000003", "", True),
        ("", "", True),
        ("all", "no-such-gpu", False),
    ],
)
def test_what_hides_gpus_from_the_suite(suite, tmp_path, value, cause, noted):
    run = judged(suite, tmp_path, h100_box(), CUDA_VISIBLE_DEVICES=value)
    found = run.finding(SEES, "this")
    assert (found["cause"], bool(found["notes"])) == (cause, noted), found
    assert run.code == (1 if cause else 0)


@pytest.mark.parametrize(("value", "cause"), [("7", ""), ("8", "no-such-gpu"), ("", "all-hidden")])
def test_what_hides_gpus_from_what_is_served(suite, tmp_path, value, cause):
    box = h100_box().process(ENGINE, "vllm", environ={"CUDA_VISIBLE_DEVICES": value})
    run = judged(suite, tmp_path, box, f"[hardware]\ngpus = 8\n{CHAT}")
    assert run.finding(SEES, "chat")["cause"] == cause
    assert run.finding(SEES, "this")["verdict"] == "pass"


def test_a_card_that_is_lost_explains_numbers_that_are_too_high(suite, tmp_path):
    last = "0000:8f:00.0"
    box = with_driver(h100_box(), last, "").drop(f"/proc/driver/nvidia/gpus/{last}/")
    run = judged(suite, tmp_path, box, CUDA_VISIBLE_DEVICES="7")
    found = run.finding(SEES, "this")
    assert (found["verdict"], found["reason"]) == ("unknown", "blocked-by")
    assert found["blocked_by"] == f"machine.devices.driver [{last}]"


def test_amds_variables_compose(suite, tmp_path):
    both = {"ROCR_VISIBLE_DEVICES": "2,3", "HIP_VISIBLE_DEVICES": "0,1"}
    assert judged(suite, tmp_path / "a", amd_box(), **both).code == 0
    run = judged(suite, tmp_path / "b", amd_box(), **{**both, "HIP_VISIBLE_DEVICES": "2,3"})
    assert run.finding(SEES, "this")["cause"] == "no-such-gpu"


def radeon(gfx: int) -> Box:
    address = "0000:03:00.0"
    box = add_gpu(plain_box(), address, vendor="0x1002", device="0x7550")
    return with_kfd_node(box, 1, address, gfx=gfx)


@pytest.mark.parametrize(
    ("gfx", "env", "cause", "noted"),
    [
        (120001, {}, "", False),
        (120001, {"HSA_OVERRIDE_GFX_VERSION": "11.0.0"}, "amd-hsa-override", False),
        (120001, {"HSA_OVERRIDE_GFX_VERSION_1": "11.0.0"}, "amd-hsa-override", False),
        (120001, {"HSA_OVERRIDE_GFX_VERSION_2": "11.0.0"}, "", False),
        (100301, {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}, "", True),
    ],
)
def test_a_gpu_that_is_taken_for_one_of_another_generation_fails(
    suite, tmp_path, gfx, env, cause, noted
):
    run = judged(suite, tmp_path, radeon(gfx), **env)
    found = run.finding(GFX, "0000:03:00.0")
    assert (found["cause"], bool(found["notes"])) == (cause, noted)
    assert found["premise"] == ["gpu[0000:03:00.0]"]
    assert run.code == (1 if cause else 0)


def test_an_override_of_what_is_served_counts_too(suite, tmp_path):
    box = radeon(120001).process(
        ENGINE, "vllm", environ={"HSA_OVERRIDE_GFX_VERSION": "11.0.0"}
    )  # fmt: skip
    run = judged(suite, tmp_path, box, CHAT)
    assert run.finding(GFX, "0000:03:00.0")["cause"] == "amd-hsa-override"


def test_mps_is_judged_where_it_is_declared(suite, tmp_path):
    def with_mps() -> Box:
        box = h100_box().process(1, "/sbin/init", parent=0)
        return box.process(700, "nvidia-cuda-mps-control", "-d")

    idle = h100_box().process(1, "/sbin/init", parent=0)
    run = judged(suite, tmp_path / "a", with_mps(), "[hardware]\nmps = false\n")
    assert run.finding(MPS)["cause"] == "mps-running"
    assert judged(suite, tmp_path / "b", with_mps(), "[hardware]\nmps = true\n").code == 0
    run = judged(suite, tmp_path / "c", idle, "[hardware]\nmps = true\n")
    assert run.finding(MPS)["cause"] == "mps-not-running"
    assert judged(suite, tmp_path / "d", idle, "[hardware]\nmps = false\n").code == 0
    run = judged(suite, tmp_path / "e", with_mps())
    assert (run.code, len(run.finding(MPS)["notes"])) == (0, 1)


def test_neither_a_proxys_password_nor_another_variable_reaches_the_ledger(suite, tmp_path):
    run = suite.run(
        tmp_path,
        env={
            "http_proxy": "http://user:hunter2hunter2@proxy.example.org:3128",
            "HTTP_PROXY": "http://other.example.org:3128",
            "SOMETHING_ELSE": "nobodys-business",
        },
    )
    text = run.ledger_path.read_text("utf-8")
    assert "proxy.example.org:3128" in text
    assert "hunter2hunter2" not in text + run.out
    assert "nobodys-business" not in text + run.out
    assert "which of them counts depends" in " ".join(run.finding(SEES, "this")["notes"])
