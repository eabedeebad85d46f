"""The judges of leftovers, with data alone: lists as CUDA, HIP and ROCr read them, overrides, MPS."""

from dataclasses import replace

import pytest

from checks.core.expectation import Basis
from checks.core.profile import Hardware, Profile, Serve
from checks.core.registry import REGISTRY
from checks.core.verdict import Verdict
from checks.machine.facts import Gpus, Leftover, Leftovers, Mps, VisibilityWanted
from checks.machine.judge import leftovers as judge
from checks.machine.visible import Among, Shown, read_list
from tests.support.judging import UNSEEN, expected, same_text
from tests.support.seen import ABSENT, GPU, GPUS, IDENTITY

UUIDS = ("GPU-aaaa0000-1", "GPU-aaaa1111-2", "GPU-bbbb2222-3", "GPU-cccc3333-4")
CASUAL = VisibilityWanted(place="this", needs_gpus=False)
NEEDS = VisibilityWanted(place="this", needs_gpus=True)


def nvidia(count: int = 4) -> Gpus:
    return replace(
        GPUS, gpus=tuple(replace(GPU, address=f"0000:{n:02x}:00.0") for n in range(count))
    )


def amd(*gfx: object, **changes: object) -> Gpus:
    gpus = tuple(
        replace(
            GPU,
            address=f"0000:{n:02x}:00.0",
            vendor="amd",
            driver="amdgpu",
            uuid=f"GPU-{n:016x}",
            kfd_nodes=(str(n + 1),),
            gfx=version,
        )
        for n, version in enumerate(gfx)
    )
    return replace(
        GPUS, **{"gpus": gpus, "modules": ("amdgpu",), "kfd_gpus_count": len(gfx), **changes}
    )


def place(env: object = None, **changes: object) -> Leftover:
    row = Leftover(
        place="this",
        source="the suite's own environment",
        environment={} if env is None else env,
        libraries=(),
        proxies={},
        nvidia_uuids=UUIDS,
    )
    return replace(row, **changes)


def seen_in(env: object, gpus: Gpus, wanted: VisibilityWanted = CASUAL, **changes: object):
    left = Leftovers(places=(place(env, **changes),))
    return judge.visible_gpus_are_there(left, gpus, wanted)


# lists of GPUs


def cuda(value: str, most: int | None = 4, uuids: object = UUIDS) -> Shown:
    return read_list(value, Among(most=most, uuids=uuids, cuda=True))


def hip(value: str, most: int | None = 4, uuids: object = UUIDS) -> Shown:
    return read_list(value, Among(most=most, uuids=uuids, cuda=False))


@pytest.mark.parametrize("read", [cuda, hip])
@pytest.mark.parametrize(
    ("value", "indices", "wrong"),
    [
        ("0", (0,), ""),
        ("3", (3,), ""),
        ("4", (), "4, and the last number here is 3"),
        ("2,0", (2, 0), ""),
        ("0,4,1", (0,), "4, and the last number here is 3"),
        ("", (), ""),
        ("-1", (), ""),
        ("NoDevFiles", (), ""),
        ("none", (), ""),
        ("0,1,-1", (0, 1), ""),
        ("0,1,", (0, 1), ""),
        ("all", (), "'all', which is neither a number nor a UUID"),
        ("cuda:0", (), "'cuda:0', which is neither a number nor a UUID"),
        ('"0,1"', (), "'\"0', which is neither a number nor a UUID"),
        ("0,none", (0,), "'none', which is neither a number nor a UUID"),
        ("99999999", (), "99999999, and the last number here is 3"),
    ],
)
def test_a_list_is_visible_up_to_its_first_bad_entry(read, value, indices, wrong):
    shown = read(value)
    assert (shown.indices, shown.wrong) == (indices, wrong)
    assert shown.count == len(indices)


def test_cuda_takes_what_a_number_begins_with_and_hip_does_not():
    assert cuda("0-2").indices == (0,)
    assert cuda(" 0, 1").indices == (0, 1)
    shown = hip("0, 1,2")
    assert (shown.indices, shown.wrong) == ((0,), "")
    assert shown.notes == (
        "HIP takes bare numbers alone: nothing from ' 1' on is visible",
        "nothing behind '1' is visible: 2",
    )


def test_a_number_that_stands_twice_hides_everything_under_cuda_alone():
    assert cuda("0,1,0").wrong == "0 twice, which hides all of them"
    assert (hip("0,1,0").indices, hip("0,1,0").wrong) == ((0, 1), "")


def test_a_uuid_that_stands_twice_hides_everything_under_cuda_alone():
    assert cuda("GPU-b,GPU-c,GPU-b").wrong == "GPU-b twice, which hides all of them"
    assert cuda("MIG-1,MIG-1").wrong == "MIG-1 twice, which hides all of them"
    assert hip("GPU-b,GPU-c,GPU-b").others == ("GPU-b", "GPU-c")
    twice = {"CUDA_VISIBLE_DEVICES": "GPU-b,GPU-bb"}
    assert seen_in(twice, nvidia(), nvidia_uuids=UUIDS[2:3]).notes == ()


def test_what_stands_behind_the_end_of_a_list_is_noted():
    assert cuda("0,-1,2").notes == ("nothing behind '-1' is visible: 2",)
    assert cuda("0,,2,3").notes == ("nothing behind '' is visible: 2,3",)
    assert cuda("0,-1").notes == ()
    assert cuda("0,9,1").notes == ()


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ("GPU-aaaa0000-1", ""),
        ("GPU-AAAA0000", ""),
        ("GPU-b", ""),
        ("GPU-aaaa", "GPU-aaaa, which fits 2 GPUs"),
        ("GPU-dddd", "GPU-dddd, which is no GPU here"),
        ("GPU-aaaa0000-12", "GPU-aaaa0000-12, which is no GPU here"),
        ("GPU-b,GPU-c,GPU-d", "GPU-d, which is no GPU here"),
    ],
)
def test_a_uuid_may_be_shortened_as_long_as_it_fits_one_gpu(value, wrong):
    shown = cuda(value)
    assert shown.wrong == wrong
    assert len(shown.others) == value.count("GPU") - bool(wrong)


def test_a_uuid_among_those_that_cannot_be_read_is_no_fail():
    for uuids in (UNSEEN, (*UUIDS[:3], UNSEEN)):
        shown = cuda("GPU-dddd", uuids=uuids)
        assert (shown.wrong, shown.count) == ("", 1)
        assert "cannot be told" in shown.notes[0]
    assert cuda("GPU-aaaa", uuids=(*UUIDS[:3], UNSEEN)).wrong == "GPU-aaaa, which fits 2 GPUs"
    assert cuda("GPU-bbbb", uuids=(*UUIDS[:3], UNSEEN)).notes == ()


def test_parts_of_gpus_are_left_alone_with_a_note():
    shown = cuda("MIG-1111,MIG-2222")
    assert (shown.wrong, shown.count, len(shown.notes)) == ("", 2, 2)


def test_numbers_are_not_judged_where_nobody_knows_how_many_there_are():
    shown = hip("0,63", most=None)
    assert (shown.wrong, shown.count, shown.indices) == ("", 2, ())


# visibility


def test_a_box_without_gpus_has_nothing_to_hide():
    said = seen_in({"CUDA_VISIBLE_DEVICES": "7"}, replace(GPUS, gpus=()))
    assert said.verdict is Verdict.NOT_APPLICABLE


def test_nothing_set_hides_nothing():
    for gpus in (nvidia(), amd("9.4.2")):
        said = seen_in({}, gpus)
        assert (said.verdict, said.says, said.notes) == (
            Verdict.PASS,
            "no variable hides a GPU",
            (),
        )


def test_a_card_that_is_named_and_not_there_fails():
    said = seen_in({"CUDA_VISIBLE_DEVICES": "0,4"}, nvidia())
    assert said.cause == "no-such-gpu"
    assert said.says == "CUDA_VISIBLE_DEVICES=0,4 names 4, and the last number here is 3"
    assert said.remedy.startswith("unset CUDA_VISIBLE_DEVICES in the suite's own environment")
    assert said.observed == {"CUDA_VISIBLE_DEVICES": "0,4"}
    assert said.evidence == (
        "looked at the suite's own environment",
        "CUDA_VISIBLE_DEVICES=0,4",
    )
    assert said.notes == ()
    said = seen_in({"CUDA_VISIBLE_DEVICES": "0,3"}, nvidia())
    assert said.verdict is Verdict.PASS


def test_each_vendors_list_is_read_by_its_own_rules():
    said = seen_in({"CUDA_VISIBLE_DEVICES": "1,1"}, nvidia())
    assert said.says == "CUDA_VISIBLE_DEVICES=1,1 names 1 twice, which hides all of them"
    two = amd("9.4.2", "9.4.2")
    assert seen_in({"HIP_VISIBLE_DEVICES": "1,1"}, two).verdict is Verdict.PASS
    assert seen_in({"ROCR_VISIBLE_DEVICES": "1,1"}, two).verdict is Verdict.PASS


def test_what_was_read_out_of_a_list_is_noted_with_its_name():
    notes = seen_in({"CUDA_VISIBLE_DEVICES": "0,-1,1"}, nvidia()).notes
    assert notes[0] == "CUDA_VISIBLE_DEVICES=0,-1,1: nothing behind '-1' is visible: 1"
    assert notes[1].startswith("CUDA_VISIBLE_DEVICES=0,-1,1 shows 1 of 4 GPUs and hides 1, 2, 3 (")


def test_of_two_variables_that_hide_everything_the_first_is_named():
    mixed = replace(nvidia(1), gpus=(*nvidia(1).gpus, *amd("9.4.2").gpus))
    env = {"CUDA_VISIBLE_DEVICES": "-1", "ROCR_VISIBLE_DEVICES": ""}
    said = seen_in(env, mixed, NEEDS)
    assert said.says == "CUDA_VISIBLE_DEVICES=-1 hides every GPU"
    assert said.remedy.startswith("unset CUDA_VISIBLE_DEVICES in")
    assert [note.partition(" ")[0] for note in seen_in(env, mixed).notes] == [
        "CUDA_VISIBLE_DEVICES=-1",
        "ROCR_VISIBLE_DEVICES=(empty)",
    ]


def test_the_drivers_list_decides_where_there_is_one():
    """A container was given two of four; its numbers are 0 and 1."""
    named = {"CUDA_VISIBLE_DEVICES": "2"}
    assert seen_in(named, nvidia(), nvidia_uuids=UUIDS[:2]).cause == "no-such-gpu"
    assert seen_in(named, nvidia(), nvidia_uuids=UUIDS[:3]).verdict is Verdict.PASS
    for uuids in (ABSENT, ()):
        assert seen_in(named, nvidia(), nvidia_uuids=uuids).verdict is Verdict.PASS
        assert seen_in({"CUDA_VISIBLE_DEVICES": "4"}, nvidia(), nvidia_uuids=uuids).cause
        by_uuid = {"CUDA_VISIBLE_DEVICES": "GPU-dddd"}
        assert seen_in(by_uuid, nvidia(), nvidia_uuids=uuids).verdict is Verdict.PASS


def test_hidden_gpus_are_noted_with_their_numbers():
    said = seen_in({"CUDA_VISIBLE_DEVICES": "2,0"}, nvidia())
    assert said.verdict is Verdict.PASS
    assert said.says == "CUDA_VISIBLE_DEVICES=2,0"
    (note,) = said.notes
    assert note.startswith("CUDA_VISIBLE_DEVICES=2,0 shows 2 of 4 GPUs and hides 1, 3 (in CUDA's")
    env = {"CUDA_VISIBLE_DEVICES": "2,0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "SLURM_JOB_ID": "77"}
    assert seen_in(env, nvidia()).notes == (
        "CUDA_VISIBLE_DEVICES=2,0 shows 2 of 4 GPUs and hides 1, 3; Slurm's job 77 has set it",
    )
    assert seen_in({"CUDA_VISIBLE_DEVICES": "GPU-b"}, nvidia()).notes == (
        "CUDA_VISIBLE_DEVICES=GPU-b shows 1 of 4 GPUs",
    )
    assert seen_in({"CUDA_VISIBLE_DEVICES": "3,2,1,0"}, nvidia()).notes == ()
    by_uuid = {"CUDA_VISIBLE_DEVICES": ",".join(UUIDS)}
    assert seen_in(by_uuid, nvidia(1), nvidia_uuids=UUIDS).notes == ()
    every = {"CUDA_VISIBLE_DEVICES": ",".join(str(number) for number in range(300))}
    many = tuple(f"GPU-{number}" for number in range(300))
    assert seen_in(every, nvidia(), nvidia_uuids=many).notes == ()
    assert seen_in({"HIP_VISIBLE_DEVICES": "0"}, amd("9.4.2", "9.4.2")).notes == (
        "HIP_VISIBLE_DEVICES=0 shows 1 of 2 GPUs and hides 1",
    )


@pytest.mark.parametrize("value", ["", "-1", "NoDevFiles"])
def test_all_hidden_fails_where_an_engine_needs_one(value):
    env = {"CUDA_VISIBLE_DEVICES": value}
    said = seen_in(env, nvidia())
    assert said.verdict is Verdict.PASS
    assert said.notes[0].endswith("hides every GPU; unset it if one is needed")
    said = seen_in(env, nvidia(), NEEDS)
    assert said.cause == "all-hidden"
    assert said.says == f"CUDA_VISIBLE_DEVICES={value or '(empty)'} hides every GPU"
    assert said.observed == {"CUDA_VISIBLE_DEVICES": value}
    assert seen_in({"CUDA_VISIBLE_DEVICES": "0"}, nvidia(), NEEDS).verdict is Verdict.PASS
    assert seen_in({}, nvidia(), NEEDS).verdict is Verdict.PASS


def test_amds_two_variables_compose():
    four = amd(*["9.4.2"] * 4)
    both = {"ROCR_VISIBLE_DEVICES": "2,3", "HIP_VISIBLE_DEVICES": "0,1"}
    assert seen_in(both, four).verdict is Verdict.PASS
    said = seen_in(both | {"HIP_VISIBLE_DEVICES": "2"}, four)
    assert said.cause == "no-such-gpu"
    assert said.says == (
        "HIP_VISIBLE_DEVICES=2 names 2, and the last number here is 1 (of what "
        "ROCR_VISIBLE_DEVICES=2,3 leaves)"
    )
    assert seen_in({"HIP_VISIBLE_DEVICES": "2"}, four).verdict is Verdict.PASS
    assert seen_in({"HIP_VISIBLE_DEVICES": "4"}, four).says.endswith("the last number here is 3")
    assert seen_in({"ROCR_VISIBLE_DEVICES": "4"}, four).cause == "no-such-gpu"
    # what the first hides, the second cannot name
    said = seen_in(both | {"ROCR_VISIBLE_DEVICES": "9"}, four)
    assert said.says.startswith("ROCR_VISIBLE_DEVICES=9 names 9")
    said = seen_in(both | {"ROCR_VISIBLE_DEVICES": ""}, four, NEEDS)
    assert said.says == "ROCR_VISIBLE_DEVICES=(empty) hides every GPU"
    # Slurm's: chosen by ROCr, and by nothing else
    assert seen_in({"ROCR_VISIBLE_DEVICES": "3"}, four).verdict is Verdict.PASS


def test_amds_uuids_are_compared_too():
    two = amd("9.4.2", "9.4.2")
    assert seen_in({"ROCR_VISIBLE_DEVICES": "GPU-0000000000000001"}, two).verdict is Verdict.PASS
    assert seen_in({"ROCR_VISIBLE_DEVICES": "GPU-0000000000000002"}, two).cause == "no-such-gpu"


def test_hip_reads_cudas_variable_where_its_own_is_not_set():
    two = amd("9.4.2", "9.4.2")
    assert seen_in({"CUDA_VISIBLE_DEVICES": "2"}, two).cause == "no-such-gpu"
    assert seen_in({"CUDA_VISIBLE_DEVICES": "2", "HIP_VISIBLE_DEVICES": ""}, two).cause
    both = {"CUDA_VISIBLE_DEVICES": "2", "HIP_VISIBLE_DEVICES": "1"}
    assert seen_in(both, two).verdict is Verdict.PASS
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        assert seen_in({name: ""}, two, NEEDS).verdict is Verdict.PASS, "taken for one not set"
    # with cards of both vendors, it is CUDA's alone
    mixed = replace(two, gpus=(*nvidia(4).gpus, *two.gpus))
    assert seen_in({"CUDA_VISIBLE_DEVICES": "3"}, mixed).verdict is Verdict.PASS
    assert seen_in({"HIP_VISIBLE_DEVICES": "2"}, mixed).cause == "no-such-gpu"
    assert seen_in({"HIP_VISIBLE_DEVICES": "9"}, nvidia()).verdict is Verdict.PASS


def test_partitions_of_amds_gpus_have_numbers_of_their_own():
    named = {"HIP_VISIBLE_DEVICES": "31"}
    assert seen_in(named, amd("9.4.2", kfd_gpus_count=32)).verdict is Verdict.PASS
    assert seen_in(named, amd("9.4.2", kfd_gpus_count=31)).cause == "no-such-gpu"
    assert seen_in(named, amd("9.4.2", kfd_gpus_count=UNSEEN)).verdict is Verdict.PASS
    both = named | {"ROCR_VISIBLE_DEVICES": "0"}
    assert seen_in(both, amd("9.4.2", kfd_gpus_count=UNSEEN)).verdict is Verdict.PASS
    for count in (0, ABSENT):
        assert seen_in(named, amd("9.4.2", kfd_gpus_count=count)).cause == "no-such-gpu"
        first = {"HIP_VISIBLE_DEVICES": "0"}
        assert seen_in(first, amd("9.4.2", kfd_gpus_count=count)).verdict is Verdict.PASS


def test_what_a_container_was_given_numbers_anew_and_is_noted():
    env = {"NVIDIA_VISIBLE_DEVICES": "2,3", "CUDA_VISIBLE_DEVICES": "2"}
    (note,) = [note for note in seen_in(env, nvidia()).notes if "container" in note]
    assert note.startswith("a container that was given NVIDIA_VISIBLE_DEVICES=2,3 numbers its GPUs")
    assert "from 0 to 1, and CUDA_VISIBLE_DEVICES names 2" in note
    env = {"NVIDIA_VISIBLE_DEVICES": "1,2,3,4", "CUDA_VISIBLE_DEVICES": "0,8,300"}
    many = tuple(f"GPU-{number}" for number in range(301))
    (note,) = [n for n in seen_in(env, nvidia(), nvidia_uuids=many).notes if "container" in n]
    assert "from 0 to 3, and CUDA_VISIBLE_DEVICES names 8, 300" in note
    env = {"NVIDIA_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "1", "ROCR_VISIBLE_DEVICES": "0,1"}
    for each in (env, {**env, "HIP_VISIBLE_DEVICES": ""}):
        notes = seen_in(each, amd("9.4.2", "9.4.2")).notes
        assert "container" not in "".join(notes), "it gives no cards of AMD's"
    env = {"NVIDIA_VISIBLE_DEVICES": "1,all", "CUDA_VISIBLE_DEVICES": "2"}
    assert "container" in "".join(seen_in(env, nvidia()).notes)
    for given, named in (
        ("2,3", "1"),
        ("all", "3"),
        ("all,1", "3"),
        ("", "3"),
        ("void", "3"),
        ("GPU-a,GPU-b", "1"),
    ):
        env = {"NVIDIA_VISIBLE_DEVICES": given, "CUDA_VISIBLE_DEVICES": named}
        assert "container" not in "".join(seen_in(env, nvidia()).notes), given


def test_other_leftovers_are_noted():
    said = seen_in({"GPU_DEVICE_ORDINAL": "9"}, amd("9.4.2"))
    assert (said.verdict, said.notes) == (
        Verdict.PASS,
        ("GPU_DEVICE_ORDINAL=9 chooses GPUs for OpenCL",),
    )
    libraries = ("LD_LIBRARY_PATH: /usr/local/cuda/lib64/stubs", "LD_PRELOAD: /cuda/compat/x.so")
    (note,) = seen_in({}, nvidia(), libraries=libraries).notes
    assert note.startswith(libraries[0])


def test_proxies_that_differ_are_noted():
    proxies = {"http_proxy": "http://a:1", "HTTP_PROXY": "http://b:1"}
    (note,) = seen_in({}, nvidia(), proxies=proxies).notes
    assert note.startswith("http_proxy is http://a:1 and HTTP_PROXY is http://b:1")
    assert seen_in({}, replace(GPUS, gpus=()), proxies=proxies).notes == (note,)
    other_way = {"http_proxy": "http://b:1", "HTTP_PROXY": "http://a:1"}
    assert len(seen_in({}, nvidia(), proxies=other_way).notes) == 1
    for fine in (
        {"http_proxy": "http://a:1"},
        {"HTTP_PROXY": "http://a:1"},
        {"https_proxy": "http://a:1", "HTTPS_PROXY": same_text("http://a:1")},
        {"http_proxy": "http://a:1", "HTTPS_PROXY": "http://b:1"},
    ):
        assert seen_in({}, nvidia(), proxies=fine).notes == ()


def test_an_environment_that_cannot_be_read_is_unknown():
    said = seen_in(UNSEEN, nvidia())
    assert (said.verdict, said.remedy) == (Verdict.UNKNOWN, UNSEEN.remedy)
    other = VisibilityWanted(place="chat", needs_gpus=False)
    assert seen_in({}, nvidia(), other).verdict is Verdict.UNKNOWN


def test_a_place_is_found_by_its_name():
    left = Leftovers(places=(place({"CUDA_VISIBLE_DEVICES": "9"}, place="a"), place({})))
    wanted = VisibilityWanted(place=same_text("this"), needs_gpus=False)
    assert judge.visible_gpus_are_there(left, nvidia(), wanted).verdict is Verdict.PASS


def test_each_place_is_judged_by_its_own_environment():
    left = Leftovers(
        places=(place({"CUDA_VISIBLE_DEVICES": "9"}), place({}, place="chat", source="chat's"))
    )
    other = VisibilityWanted(place="chat", needs_gpus=False)
    assert judge.visible_gpus_are_there(left, nvidia(), other).verdict is Verdict.PASS
    assert judge.visible_gpus_are_there(left, nvidia(), CASUAL).cause == "no-such-gpu"


@pytest.mark.parametrize(
    ("serve", "gpus", "needs"),
    [
        (Serve(name="chat", engine="vllm"), 8, True),
        (Serve(name="chat", engine="SGLang"), 8, True),
        (Serve(name="chat", command="vllm serve org/model"), 8, True),
        (Serve(name="chat", engine="vllm"), None, False),
        (Serve(name="chat", engine="vllm"), 0, False),
        (Serve(name="chat", engine="llama.cpp"), 8, False),
        (Serve(name="chat", engine="vllm", env={"CUDA_VISIBLE_DEVICES": ""}), 8, False),
        (Serve(name="chat", engine="vllm", env={"HF_HOME": "/x"}), 8, True),
        (Serve(name="chat"), 8, False),
    ],
)
def test_an_engine_needs_gpus_where_the_profile_says_so_and_does_not_hide_them(serve, gpus, needs):
    profile = Profile(schema=1, hardware=Hardware(gpus=gpus), serve=(serve,))
    this, chat = REGISTRY.checks["machine.leftovers.visibility"].cases(expected(profile))
    assert (this.subject, this.wanted.value) == ("this", CASUAL)
    assert (chat.subject, chat.wanted.basis) == ("chat", Basis.INVARIANT)
    assert chat.wanted.value == VisibilityWanted(place="chat", needs_gpus=needs)


# overrides


def overridden(gpus: Gpus, *places: Leftover):
    said = judge.gfx_not_overridden(gpus, Leftovers(places=places), None)
    for address, judgement in said.items():
        assert judgement.premise == (f"gpu[{address}]",)
    return list(said.values())


@pytest.mark.parametrize(
    ("gfx", "text", "fails", "noted"),
    [
        ("12.0.1", "11.0.0", True, False),
        ("11.0.1", "10.3.0", True, False),
        ("10.3.1", "10.3.0", False, True),
        ("10.3.1", "10.3.1", False, False),
        ("9.0.10", "9.0.6", False, True),
        ("9.4.2", "90.4.2", True, False),
        ("9.4.2", "64.0.0", True, False),
        ("64.0.0", "64.0.0", True, False),
        ("63.4.2", "63.255.255", False, True),
        ("63.4.2", "63.256.0", True, False),
        ("63.4.2", "63.0.256", True, False),
        ("11.0.0", "", True, False),
        ("11.0.0", "11.0", True, False),
        ("11.0.0", "gfx1100", True, False),
        ("11.0.0", "11.0.0 ", True, False),
        ("11.0.0", " 11.0.0", False, False),
    ],
)
def test_a_gpu_may_be_taken_for_another_of_its_own_generation_alone(gfx, text, fails, noted):
    (said,) = overridden(amd(gfx), place({"HSA_OVERRIDE_GFX_VERSION": text}))
    assert (said.cause == "amd-hsa-override") is fails
    assert bool(said.notes) is noted
    assert said.evidence == (f"the suite's own environment: HSA_OVERRIDE_GFX_VERSION={text}",)
    if fails:
        assert said.remedy.startswith("unset HSA_OVERRIDE_GFX_VERSION in the suite's own")
        assert said.observed == {"override": f"HSA_OVERRIDE_GFX_VERSION={text}"}
    if noted:
        assert "a known way" in said.notes[0]
        assert said.says == said.notes[0]


def test_the_gpu_is_called_as_its_compiler_calls_it():
    (said,) = overridden(amd("9.0.10"), place({"HSA_OVERRIDE_GFX_VERSION": "11.0.0"}))
    assert said.says == (
        "HSA_OVERRIDE_GFX_VERSION=11.0.0 on gfx90a, which is of another generation"
    )
    (said,) = overridden(amd("12.0.1"), place({}))
    assert (said.says, said.observed) == ("is not taken for another", {"gfx": "gfx1201"})


def test_the_form_for_one_node_comes_first():
    env = {"HSA_OVERRIDE_GFX_VERSION": "11.0.0", "HSA_OVERRIDE_GFX_VERSION_2": "10.3.0"}
    first, second = overridden(amd("11.0.0", "10.3.1"), place(env))
    assert (first.verdict, first.notes) == (Verdict.PASS, ())
    assert (second.verdict, len(second.notes)) == (Verdict.PASS, 1)
    first, second = overridden(amd("11.0.0", "11.0.0"), place(env))
    assert (first.cause, second.cause) == ("", "amd-hsa-override")
    assert second.remedy.startswith("unset HSA_OVERRIDE_GFX_VERSION_2 in")


def test_every_place_counts():
    chat = place({"HSA_OVERRIDE_GFX_VERSION": "11.0.0"}, place="chat", source="process 900")
    (said,) = overridden(amd("12.0.1"), place({}), chat)
    assert said.cause == "amd-hsa-override"
    assert "in process 900" in said.remedy
    assert said.observed == {"override": "HSA_OVERRIDE_GFX_VERSION=11.0.0"}
    near = place({"HSA_OVERRIDE_GFX_VERSION": "12.0.0"})
    (said,) = overridden(amd("12.0.1"), near, chat)
    assert said.observed == {"override": "HSA_OVERRIDE_GFX_VERSION=11.0.0"}
    other = place({"HSA_OVERRIDE_GFX_VERSION": "12.0.9"}, place="chat")
    (said,) = overridden(amd("12.0.1"), near, other)
    assert (said.says, len(said.notes)) == (said.notes[0], 2)
    (said,) = overridden(amd("12.0.1"), place(UNSEEN), place({}, place="chat"))
    assert (said.verdict, said.remedy) == (Verdict.UNKNOWN, UNSEEN.remedy)
    (said,) = overridden(amd("12.0.1"), place(UNSEEN), chat)
    assert said.cause == "amd-hsa-override", "what was seen is enough"


def test_a_gpu_that_nobody_can_name_is_unknown_only_where_it_is_overridden():
    (said,) = overridden(amd(UNSEEN), place({"HSA_OVERRIDE_GFX_VERSION": "11.0.0"}))
    assert said.verdict is Verdict.UNKNOWN
    assert overridden(amd(UNSEEN), place({}))[0].verdict is Verdict.PASS
    (said,) = overridden(amd(UNSEEN), place({"HSA_OVERRIDE_GFX_VERSION": "x"}))
    assert said.cause == "amd-hsa-override", "ROCm starts for no GPU with it"


OLD = {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}


@pytest.mark.parametrize(
    ("chosen", "fails"),
    [
        ({}, True),
        ({"ROCR_VISIBLE_DEVICES": "0"}, False),
        ({"ROCR_VISIBLE_DEVICES": "1"}, True),
        ({"HIP_VISIBLE_DEVICES": "0"}, False),
        ({"HIP_VISIBLE_DEVICES": "0,1"}, True),
        ({"CUDA_VISIBLE_DEVICES": "0"}, False),
        ({"HIP_VISIBLE_DEVICES": ""}, True),
        ({"ROCR_VISIBLE_DEVICES": "1,0", "HIP_VISIBLE_DEVICES": "1"}, False),
        ({"ROCR_VISIBLE_DEVICES": "1,0", "HIP_VISIBLE_DEVICES": "0"}, True),
        ({"ROCR_VISIBLE_DEVICES": "GPU-0000000000000000"}, True),
        ({"ROCR_VISIBLE_DEVICES": ""}, False),
    ],
)
def test_a_gpu_that_is_hidden_may_be_overridden(chosen, fails):
    first, second = overridden(amd("10.3.1", "11.0.0"), place(OLD | chosen))
    assert first.verdict is Verdict.PASS
    assert (second.cause == "amd-hsa-override") is fails
    if not fails:
        assert second.notes == ("HSA_OVERRIDE_GFX_VERSION=10.3.0 [this] on gfx1100: not used",)


def test_a_hidden_gpu_may_be_taken_for_a_newer_one_as_well():
    env = OLD | {"ROCR_VISIBLE_DEVICES": "1"}
    first, second = overridden(amd("9.4.2", "10.3.1"), place(env))
    assert first.notes == ("HSA_OVERRIDE_GFX_VERSION=10.3.0 [this] on gfx942: not used",)
    assert "a known way" in second.notes[0]


def test_the_processors_own_gpu_beside_a_card_may_be_overridden():
    both = amd("11.0.1", "10.3.6")
    card, own = both.gpus
    env = {"HSA_OVERRIDE_GFX_VERSION": "11.0.0"}
    seen = replace(both, gpus=(card, replace(own, integrated=True)))
    assert [one.verdict for one in overridden(seen, place(env))] == [Verdict.PASS] * 2
    alone = replace(both, gpus=(replace(own, integrated=True),))
    assert overridden(alone, place(env))[0].cause == "amd-hsa-override"


def test_a_gpu_that_the_compute_driver_does_not_list_counts_as_used():
    seen = amd("11.0.0")
    seen = replace(seen, gpus=(replace(seen.gpus[0], kfd_nodes=()),))
    assert overridden(seen, place(OLD))[0].cause == "amd-hsa-override"


def test_gpus_of_others_are_not_asked():
    assert overridden(nvidia(), place(OLD)) == []
    mixed = replace(nvidia(1), gpus=(*nvidia(1).gpus, *amd("11.0.0").gpus))
    assert len(overridden(mixed, place(OLD | {"CUDA_VISIBLE_DEVICES": ""}))) == 1


# MPS

IDLE = Mps(processes=(), hidden_count=0, others_hidden=False)
RUNS = replace(IDLE, processes=("900 nvidia-cuda-mps", "901 nvidia-cuda-mps"))
DOCKER = replace(IDENTITY, container="docker")


@pytest.mark.parametrize(
    ("seen", "wanted", "cause"),
    [
        (IDLE, None, ""),
        (IDLE, False, ""),
        (IDLE, True, "mps-not-running"),
        (RUNS, None, ""),
        (RUNS, True, ""),
        (RUNS, False, "mps-running"),
    ],
)
def test_mps_runs_as_declared(seen, wanted, cause):
    said = judge.mps_as_declared(seen, nvidia(), IDENTITY, wanted)
    assert said.cause == cause
    assert said.verdict is (Verdict.FAIL if cause else Verdict.PASS)
    assert said.observed == {"processes": list(seen.processes)}
    assert said.expected == ({} if wanted is None else {"runs": "yes" if wanted else "no"})
    assert bool(said.notes) is (seen is RUNS and wanted is None)
    if seen is RUNS:
        assert said.says.startswith("MPS runs: 900 nvidia-cuda-mps")
    elif not cause:
        assert said.says == "no process of MPS runs"


@pytest.mark.parametrize(
    ("seen", "box"),
    [
        (replace(IDLE, others_hidden=True), IDENTITY),
        (replace(IDLE, hidden_count=1), IDENTITY),
        (IDLE, DOCKER),
        (IDLE, replace(IDENTITY, container=UNSEEN)),
    ],
)
def test_mps_that_cannot_be_seen_is_unknown_where_it_is_declared(seen, box):
    for wanted in (True, False):
        assert judge.mps_as_declared(seen, nvidia(), box, wanted).verdict is Verdict.UNKNOWN
    said = judge.mps_as_declared(seen, nvidia(), box, None)
    assert (said.verdict, said.says) == (Verdict.PASS, "no process of MPS is seen here")
    shown = replace(seen, processes=RUNS.processes)
    assert judge.mps_as_declared(shown, nvidia(), box, wanted=True).verdict is Verdict.PASS
    assert judge.mps_as_declared(shown, nvidia(), box, wanted=False).cause == "mps-running"


def test_mps_is_nothing_without_a_gpu_of_nvidia():
    for gpus in (amd("9.4.2"), replace(GPUS, gpus=())):
        assert judge.mps_as_declared(IDLE, gpus, IDENTITY, None).verdict is Verdict.NOT_APPLICABLE
        assert judge.mps_as_declared(IDLE, gpus, IDENTITY, wanted=True).cause == "mps-not-running"
    mixed = replace(nvidia(1), gpus=(*amd("9.4.2").gpus, *nvidia(1).gpus))
    assert judge.mps_as_declared(IDLE, mixed, IDENTITY, None).verdict is Verdict.PASS


def test_mps_is_declared_or_a_choice():
    of = REGISTRY.checks["machine.leftovers.mps"].cases
    (case,) = of(expected(Profile(schema=1)))
    assert (case.wanted.value, case.wanted.basis) == (None, Basis.INVARIANT)
    (case,) = of(expected(Profile(schema=1, hardware=Hardware(mps=False))))
    assert (case.wanted.value, case.wanted.basis) == (False, Basis.DECLARED)
