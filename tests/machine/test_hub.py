"""Where a served model is downloaded to, as far as the profile says."""

import pytest

from checks.core.profile import Paths, Profile, Serve
from checks.machine.hub import ELSEWHERE, declared_caches, hub_cache, is_hub_model

MODEL = "example-org/chat-8b"


@pytest.mark.parametrize(
    ("model", "known"),
    [(MODEL, True), ("chat", True), ("/srv/m", False), ("~/m", False), ("./m", False),
     ("../m", False), ("", False), (None, False)],
)  # fmt: skip
def test_a_file_or_folder_is_no_model_of_the_hub(model, known):
    assert is_hub_model(model) is known


def test_the_variables_count_in_the_order_of_the_hubs_library():
    environ = {"XDG_CACHE_HOME": "/x"}
    assert hub_cache({}) is None
    assert hub_cache(environ) == "/x/huggingface/hub"
    assert hub_cache(environ | {"HF_HOME": "/h"}) == "/h/hub"
    assert hub_cache(environ | {"HF_HOME": "/h", "HUGGINGFACE_HUB_CACHE": "/o"}) == "/o"
    assert hub_cache({"HUGGINGFACE_HUB_CACHE": "/o", "HF_HUB_CACHE": "/n"}) == "/n"
    assert hub_cache({"HF_HUB_CACHE": "", "HF_HOME": ""}) is None


def caches(*serve: Serve, **paths: str) -> tuple[str | None, ...]:
    return declared_caches(Profile(schema=1, serve=serve, paths=Paths(**paths)))


def test_a_profile_that_names_nothing_leaves_it_to_the_boxs_environment():
    assert caches() == (None,)
    assert caches(Serve(name="a", model=MODEL)) == (None,)
    # only what is downloaded matters
    assert caches(Serve(name="a", model="/srv/m", env={"HF_HOME": "/h"})) == (None,)
    assert caches(Serve(name="a", env={"HF_HOME": "/h"})) == (None,)


@pytest.mark.parametrize(
    ("serve", "folder"),
    [
        (Serve(name="a", model=MODEL, env={"HF_HOME": "/h"}), "/h/hub"),
        (Serve(name="a", model=MODEL, command="HF_HOME=/h vllm serve m"), "/h/hub"),
        (Serve(name="a", model=MODEL, command="vllm serve m --download-dir /d/"), "/d"),
        (Serve(name="a", model=MODEL, command="vllm serve m --download-dir=/"), "/"),
        (Serve(name="a", model=MODEL, command=("vllm", "--download_dir", "/d")), "/d"),
        (
            Serve(name="a", model=MODEL, command="vllm --download-dir /d", env={"HF_HOME": "/h"}),
            "/d",
        ),
        (Serve(name="a", model=MODEL, env={"HF_HOME": "/h"}, where="pid:7"), "/h/hub"),
        (Serve(name="a", model=MODEL, command="taskset -c 0 vllm --download-dir /d"), "/d"),
        (
            Serve(name="a", model=MODEL, env={"HF_HOME": "/h"}, where="container:0123456789ab"),
            ELSEWHERE,
        ),
        (Serve(name="a", model=MODEL, command="podman run -e HF_HOME=/h i"), ELSEWHERE),
    ],
)
def test_a_server_may_name_its_own_folder(serve, folder):
    assert caches(serve) == (folder,)
    assert caches(serve, model_cache="/srv") == ("/srv",)


def test_servers_that_go_different_ways_are_all_listed():
    one = Serve(name="a", model=MODEL, env={"HF_HOME": "/h"})
    two = Serve(name="b", model=MODEL, env={"HF_HUB_CACHE": "/h/hub/"})
    silent = Serve(name="c", model=MODEL)
    assert caches(one, two) == ("/h/hub",)
    assert caches(one, silent) == (None, "/h/hub")
