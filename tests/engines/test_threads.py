"""How many threads a command line and its environment ask for, in every form in use."""

import shlex

import pytest

from checks.engines.threads import (
    VARIABLES,
    Asked,
    asked_for,
    engine_in,
    is_engine,
    is_wrapper,
    limiter_in,
    names_of,
    spread_of,
    starts,
)

READ_BY = {
    "LLAMA_ARG_THREADS": "llama-server",
    "N_THREADS": "llama-cpp-python",
    "N_THREADS_BATCH": "llama-cpp-python",
    "OMP_NUM_THREADS": "vllm",
    "MKL_NUM_THREADS": "sglang",
    "OPENBLAS_NUM_THREADS": "somebodys-own",
    "RAYON_NUM_THREADS": "",
}


def read(line: str, engine: str = "llama.cpp", **env: str) -> Asked | None:
    return asked_for(shlex.split(line), env, engine)


@pytest.mark.parametrize(
    ("line", "threads", "words"),
    [
        ("llama-server -t 4", 4, "-t 4"),
        ("llama-server -t4", 4, "-t4"),
        ("llama-server -t=4", 4, "-t=4"),
        ("llama-server -t 128 -m x.gguf", 128, "-t 128"),
        ("llama-server -t128", 128, "-t128"),
        ("llama-server --threads 4", 4, "--threads 4"),
        ("llama-server --threads=4", 4, "--threads=4"),
        ("llama-server -tb 4", 4, "-tb 4"),
        ("llama-server --threads-batch 4", 4, "--threads-batch 4"),
        ("llama-server --threads-batch=4", 4, "--threads-batch=4"),
        ("python -m llama_cpp.server --n_threads 4", 4, "--n_threads 4"),
        ("python -m llama_cpp.server --n_threads=4", 4, "--n_threads=4"),
        ("serve --n-threads 4", 4, "--n-threads 4"),
        ("serve --num-threads 4", 4, "--num-threads 4"),
        ("serve --nthreads 4", 4, "--nthreads 4"),
        ("serve n_threads=4", 4, "n_threads=4"),
        ("serve num_threads=4", 4, "num_threads=4"),
        ("serve num_thread=4", 4, "num_thread=4"),
        ("serve threads=4", 4, "threads=4"),
        ("llama-server -t +4", 4, "-t +4"),
        ("llama-server -t 1", 1, "-t 1"),
        ("llama-server -t 999999999", 999_999_999, "-t 999999999"),
        ("-t 4", 4, "-t 4"),
    ],
)
def test_an_option_says_the_number(line, threads, words):
    said = read(line)
    assert (said.threads, said.words, said.cut, said.by_default) == (threads, words, False, False)


@pytest.mark.parametrize("name", VARIABLES)
def test_each_variable_says_the_number_to_an_engine_that_reads_it(name):
    untold = {"N_THREADS": "prompts", "N_THREADS_BATCH": "generation"}.get(name, "")
    said, engine = Asked(4, f"{name}=4", untold=untold), READ_BY[name]
    assert asked_for(["serve"], {name: "4"}, engine) == said
    assert read(f"{name}=4 serve --port 80", engine) == said
    assert read(f"env {name}=4 serve", engine) == said
    assert read(f"docker run -e {name}=4 image serve", engine) == said
    assert read(f"docker run -e{name}=4 image serve", engine) == said
    assert read(f"podman run --env={name}=4 image serve", engine) == said
    assert read(f"podman run --env {name}=4 image serve", engine) == said
    assert read(f'sh -c "export {name}=4; serve"', engine) == said


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        ("llama.cpp", "OMP_NUM_THREADS"),  # its own number goes to num_threads(), which wins
        ("llama.cpp", "OPENBLAS_NUM_THREADS"),
        ("llama.cpp", "N_THREADS"),  # of llama-cpp-python
        ("llama-bench", "LLAMA_ARG_THREADS"),
        ("ollama", "OLLAMA_NUM_THREADS"),  # does not exist
        ("ollama", "OLLAMA_NUM_THREAD"),
        ("ollama", "OMP_NUM_THREADS"),
        ("koboldcpp", "OMP_NUM_THREADS"),
        ("vllm", "LLAMA_ARG_THREADS"),
        ("vllm", "OPENBLAS_NUM_THREADS"),
        ("sglang", "RAYON_NUM_THREADS"),
        ("", "LLAMA_ARG_THREADS"),
        ("somebodys-own", "N_THREADS"),
    ],
)
def test_a_variable_that_the_engine_does_not_read_says_nothing(engine, name):
    assert asked_for([], {name: "2"}, engine) is None
    assert asked_for(["env", f"{name}=2", "serve"], {}, engine) is None


def test_the_program_says_what_is_read_before_the_profiles_word_for_the_engine():
    env = {"LLAMA_ARG_THREADS": "2", "OMP_NUM_THREADS": "64"}
    assert asked_for(["/opt/llama-server"], env, "vllm").threads == 2
    assert asked_for(["vllm", "serve"], env, "llama.cpp").threads == 64
    assert asked_for(["serve"], env, "llama.cpp").threads == 2
    assert asked_for(["serve"], env, "VLLM").threads == 64


@pytest.mark.parametrize("env", [{"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "64"},
                                 {"OMP_NUM_THREADS": "64", "MKL_NUM_THREADS": "2"}])  # fmt: skip
@pytest.mark.parametrize("engine", ["vllm", "sglang", ""])
def test_of_several_variables_the_largest_counts(engine, env):
    assert asked_for([], env, engine).threads == 64


def test_no_option_of_vllm_is_known_to_win_over_its_variables():
    assert read("vllm serve --threads 2", "vllm", OMP_NUM_THREADS="64").threads == 64
    assert read("vllm serve --threads 64", "vllm", OMP_NUM_THREADS="2").threads == 64


@pytest.mark.parametrize(
    ("line", "engine"),
    [
        ("llama-server -t 4", "llama-server"),
        ("/opt/bin/llama-server", "llama-server"),
        ("env A=b nice -n 5 /opt/llama-server", "llama-server"),
        ("nice llama-server", "llama-server"),
        ("env A=b vllm serve x", "vllm"),
        ("tini -- vllm serve x", "vllm"),
        ("python3 /usr/bin/vllm serve x", "vllm"),
        ("python3.12 -m vllm.entrypoints.openai.api_server", "vllm.entrypoints.openai.api_server"),
        ("python -m llama_cpp.server --n_threads 4", "llama_cpp.server"),
        ("bash -c 'cd /srv; exec llama-server -t 4'", "llama-server"),
        ("bash -c llama-server", "llama-server"),
        ("env -i PYTHONUNBUFFERED=1 python3 -u -m sglang.launch_server", "sglang.launch_server"),
        ("start.sh - vllm", "vllm"),
        ("python3 -u /usr/bin/vllm serve x", "vllm"),
        ("python3 -X dev -W error -m vllm.entrypoints.openai.api_server", "vllm.entrypoints.openai.api_server"),
        ("python3 -X vllm serve.py", ""),
        ("-m vllm", ""),
        ("python3 serve.py -m vllm", ""),
        ("start.sh -m /models/llama.cpp", ""),
        ("start.sh --alias vllm", ""),
        ("start.sh", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_which_engine_a_command_starts(line, engine):
    assert engine_in(shlex.split(line)) == engine


def test_variables_that_are_none_of_ours_say_nothing():
    for name in ("THREADS", "OMP_NUM_THREADS_2", "XOMP_NUM_THREADS", "omp_num_threads", "OMP"):
        assert asked_for(["serve"], {name: "4"}) is None
        assert read(f"env {name}=4 serve") is None
    assert read("serve OMP_NUM_THREADS") is None
    assert read("serve --keep OMP_NUM_THREADS", "", OMP_NUM_THREADS="4").threads == 4


def test_a_variable_on_the_command_line_wins_over_the_environment():
    assert read("OMP_NUM_THREADS=2 serve", "", OMP_NUM_THREADS="8").threads == 2


def test_an_option_wins_over_any_variable():
    assert read("llama-server -t 2", LLAMA_ARG_THREADS="8").threads == 2
    assert read("LLAMA_ARG_THREADS=8 llama-server -t 2").threads == 2
    assert read("llama-server -t 8", LLAMA_ARG_THREADS="2").threads == 8
    assert read("serve -t 2", "", OMP_NUM_THREADS="8").threads == 2


def test_of_several_options_the_largest_counts():
    assert read("llama-server -t 4 -tb 8") == Asked(8, "-tb 8")
    assert read("llama-server -t 8 -tb 4") == Asked(8, "-t 8")
    assert read("llama-server -t 8 -tb -1") == Asked(8, "-t 8, -tb -1", follows_affinity=True)
    assert read("koboldcpp --threads 8 --blasthreads -1", "") == Asked(8, "--threads 8")


@pytest.mark.parametrize("line", ["sh -c 'llama-server -t 4'", 'bash -lc "cd /; exec serve -t 4;"'])
def test_the_line_inside_a_shell_is_what_runs(line):
    assert read(line) == Asked(4, "-t 4")


def test_a_list_of_words_may_hold_a_whole_line_too():
    assert asked_for(["sh", "-c", "OMP_NUM_THREADS='4' serve"], {}).threads == 4
    assert asked_for(["llama-server", "-t", " 4 "], {}) == Asked(4, "-t 4")
    assert asked_for(["/srv/my models/llama-server", "-t", "4"], {}) == Asked(4, "-t 4")


def test_a_shell_in_a_shell_is_opened_up():
    assert read("""ssh box 'sh -c "serve -t 4"'""") == Asked(4, "-t 4")
    assert read("""sh -c 'OMP_NUM_THREADS="4" serve'""", "") == Asked(4, "OMP_NUM_THREADS=4")
    assert asked_for(["sh", "-c", "serve -p it's -t 4"], {}) == Asked(4, "-t 4")


@pytest.mark.parametrize(
    "words",
    [
        ["llama-server", "-t", "2", "-p", "please use -t 64 now"],
        ["llama-server", "-t", "2", "--system-prompt", "OMP_NUM_THREADS=64 --threads 64"],
        ["llama-server", "-t", "2", "-c", "4096", "-p", "say -t 64"],
        ["bash", "-c", "llama-server -t 2 -p 'please use -t 64 now'"],
        ["sh", "run.sh", "-t", "2", "please use -t 64"],
    ],
)
def test_a_text_that_speaks_of_options_is_no_option(words):
    assert asked_for(words, {}) == Asked(2, "-t 2")


@pytest.mark.parametrize(
    "words",
    [
        ["/bin/bash", "-lc", "serve -t 4"],
        ["bash", "-e", "-c", "serve -t 4"],
        ["busybox", "sh", "-ec", "serve -t 4"],
        ["docker", "run", "image", "sh", "-c", "serve -t 4"],
        ["su", "user", "-c", "serve -t 4"],
        ["ssh", "box", "-p", "22", "serve -t 4"],
        ["serve -t 4"],
        ["'serve -t 4'"],
        # what follows the line is handed to it as $0, $1, …
        ["sh", "-c", "serve -t 4", "name", "please use -t 64"],
    ],
)
def test_what_a_shell_is_given_as_one_line_is_opened_up(words):
    assert asked_for(words, {}) == Asked(4, "-t 4")


def test_shells_in_shells_are_followed_to_the_innermost():
    line = "serve -t 4"
    for _ in range(7):
        line = shlex.join(["sh", "-c", line])
    assert asked_for(shlex.split(line), {}) == Asked(4, "-t 4")


@pytest.mark.parametrize("text", ["$(nproc)", "`nproc`", "${nproc}", "$nproc", "$(NPROC)"])
@pytest.mark.parametrize("option", ["-t ", "--threads ", "--threads=", "-t="])
def test_nproc_is_as_many_as_the_affinity_allows(option, text):
    said = asked_for(f"llama-server {option}{text}".split(), {})
    assert said == Asked(None, f"{option}{text}", follows_affinity=True)
    assert asked_for([], {"OMP_NUM_THREADS": text}).follows_affinity


@pytest.mark.parametrize("number", [1, 16])
@pytest.mark.parametrize("line", ["-t {} -tb $(nproc)", "-tb $(nproc) -t {}"])
def test_a_number_beside_nproc_is_kept(line, number):
    said = asked_for(line.format(number).split(), {})
    assert (said.threads, said.follows_affinity) == (number, True)
    assert sorted(said.words.split(", ")) == [f"-t {number}", "-tb $(nproc)"]


@pytest.mark.parametrize("text", ["0", "-1", "-8", "+0", "00"])
def test_zero_and_negative_numbers_mean_the_engine_s_default(text):
    assert read("serve", "", OMP_NUM_THREADS=text) is None
    assert read(f"serve --threads={text}", "") is None
    assert read(f"koboldcpp --threads {text}", "") is None
    # to llama.cpp they mean all CPUs that it may run on, and no variable steps in for it
    for line in (f"llama-server -t {text}", f"llama-server --threads={text}"):
        words = line.partition(" ")[2]
        assert read(line) == Asked(None, words, follows_affinity=True)
        assert read(line, LLAMA_ARG_THREADS="4") == Asked(None, words, follows_affinity=True)
    said = read("llama-server", LLAMA_ARG_THREADS=text)
    assert said == Asked(None, f"LLAMA_ARG_THREADS={text}", follows_affinity=True)


@pytest.mark.parametrize(
    ("line", "env", "threads", "untold"),
    [
        # the option for prompts leaves generation at the engine's default, or at its variable
        ("llama-server -tb 4", {}, 4, "generation"),
        ("llama-server --threads-batch=4", {}, 4, "generation"),
        ("llama-server -tb 4", {"LLAMA_ARG_THREADS": "16"}, 16, ""),
        ("llama-server -tb 4", {"LLAMA_ARG_THREADS": "2"}, 4, ""),
        ("llama-server -t 4", {"LLAMA_ARG_THREADS": "16"}, 4, ""),
        ("llama-server -t 4 -td 16 -md d.gguf", {}, 16, ""),
        ("llama-server -t 4 -tbd 16", {}, 16, ""),
        ("llama-server -t 4 --threads-draft 16", {}, 16, ""),
        ("llama-server -t 4 --threads-batch-draft=16", {}, 16, ""),
        ("llama-server -t 4 --spec-draft-threads 16", {}, 16, ""),
        ("llama-server -t 4 --spec-draft-threads-batch 16", {}, 16, ""),
        ("llama-server -td 4", {}, 4, "generation"),
        ("llama-server -t4", {}, 4, ""),
        ("koboldcpp --threads 4 --blasthreads 16", {}, 16, ""),
        ("koboldcpp --blasthreads 4", {}, 4, "generation"),
        ("koboldcpp --threads 0 --blasthreads 4", {}, 4, "generation"),
        ("llama-bench -t 4,16", {}, 16, ""),
        ("llama-bench -t 16,4", {}, 16, ""),
        # of llama-cpp-python, prompts take every CPU of the host if nobody tells it
        ("python3 -m llama_cpp.server --n_threads 4", {}, 4, "prompts"),
        ("python3 -m llama_cpp.server --n_threads 4 --n_threads_batch 16", {}, 16, ""),
        ("python3 -m llama_cpp.server --n_threads 4 --n_threads_batch 2", {}, 4, ""),
        ("python3 -m llama_cpp.server --n_threads 4", {"N_THREADS_BATCH": "16"}, 16, ""),
        ("python3 -m llama_cpp.server --n_threads_batch 4", {"N_THREADS": "16"}, 16, ""),
        ("python3 -m llama_cpp.server --n_threads_batch 4", {}, 4, "generation"),
        ("python3 -m llama_cpp.server", {"N_THREADS": "4", "N_THREADS_BATCH": "2"}, 4, ""),
        # of what is not known, nobody knows what else it starts
        ("serve --threads-batch 4", {}, 4, ""),
        ("vllm serve m --threads 4", {}, 4, ""),
    ],
)
def test_a_number_for_a_part_of_the_work_is_not_taken_for_the_whole(line, env, threads, untold):
    said = asked_for(line.split(), env)
    assert (said.threads, said.untold) == (threads, untold)
    assert not said.by_default


@pytest.mark.parametrize("option", ["-tp 8", "--tensor-parallel-size=8", "-pp 2", "-tp 1 -pp 2"])
def test_vllm_on_several_gpus_sets_one_thread_a_worker_if_nobody_says_otherwise(option):
    line = f"vllm serve m {option}".split()
    said = asked_for(line, {})
    assert said == Asked(1, "one in each of its worker processes", by_default=True)
    assert asked_for(line, {"OMP_NUM_THREADS": "8"}) == Asked(8, "OMP_NUM_THREADS=8")
    assert asked_for(["sglang", *line[1:]], {}) is None
    assert asked_for(["serve", *line[1:]], {}) is None


@pytest.mark.parametrize("option", ["", "-tp 1", "-tp 0", "--tensor-parallel-size=1 -pp 1"])
def test_vllm_on_one_gpu_is_as_it_is_told(option):
    assert asked_for(f"vllm serve m {option}".split(), {}) is None


@pytest.mark.parametrize(("text", "threads"), [("4,2", 4), ("2,4", 2), ("4,2,1", 4), ("4,", 4)])
def test_of_a_list_the_outermost_level_counts(text, threads):
    said = asked_for([], {"OMP_NUM_THREADS": text})
    assert said == Asked(threads, f"OMP_NUM_THREADS={text}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "4x",
        "x4",
        "4.0",
        "4e0",
        "0x4",
        ",4",
        "1234567890",
        "9" * 5_000,
        "\uff14",
        "$((2*4))",
    ],
)
def test_what_is_no_number_is_said_and_not_guessed(text):
    words = f"OMP_NUM_THREADS={text}"
    assert asked_for([], {"OMP_NUM_THREADS": text}) == Asked(None, words)
    assert asked_for(["serve", f"--threads={text}"], {}) == Asked(None, f"--threads={text}")


def test_one_number_that_cannot_be_read_outweighs_those_that_can():
    for line in ("llama-server -t 4 -tb $X", "llama-server -tb $X -t 4"):
        assert read(line) == Asked(None, "-tb $X")
    assert read("llama-server -t $X -tb $Y") == Asked(None, "-t $X")


@pytest.mark.parametrize(
    "engine", ["vllm", "VLLM 0.11", "sglang", "tgi", "text-generation-inference", "tensorrt-llm",
               "triton"]
)  # fmt: skip
def test_a_short_t_is_no_number_of_threads_elsewhere(engine):
    for line in ("serve -t 4", "serve -t4", "serve -t=4", "serve -tb 4"):
        assert read(line, engine) is None
    assert read("serve --threads 4", engine).threads == 4
    assert read("serve n_threads=4", engine).threads == 4
    assert read("serve -t 4", engine, OMP_NUM_THREADS="2").threads == 2


@pytest.mark.parametrize("engine", ["", "llama.cpp", "ollama", "ik_llama"])
def test_a_short_t_is_a_number_of_threads_here(engine):
    assert read("serve -t 4", engine).threads == 4
    assert read("serve -t4", engine).threads == 4


@pytest.mark.parametrize(
    "line",
    [
        "",
        "llama-server",
        "llama-server -m model-t4.gguf",
        "llama-server -t",
        "llama-server --threads",
        "serve --threadsx 4",
        "serve --xthreads=4",
        "serve -T 4",
        "serve -temp 4",
        "serve -tx4",
        "serve -t4x",
        "serve x-t4",
        "serve threads",
        "serve athreads=4",
        "docker run --cpus 4 --cpuset-cpus 0-3 image",
    ],
)
def test_a_line_that_does_not_say_says_nothing(line):
    assert read(line) is None
    assert read(line, LLAMA_ARG_THREADS="3") == Asked(3, "LLAMA_ARG_THREADS=3")


def test_an_option_is_read_wherever_it_stands():
    words = ["a", "b", "c"]
    for position in range(4):
        line = [*words[:position], "--threads", "4", *words[position:]]
        assert asked_for(line, {}) == Asked(4, "--threads 4")


def test_what_was_read_cannot_be_changed():
    with pytest.raises(AttributeError):
        Asked(4, "-t 4").threads = 5
    assert Asked(4, "-t 4") == Asked(4, "-t 4", follows_affinity=False)


@pytest.mark.parametrize("name", ["llama.cpp", "llama-server", "Llama-Server", "vllm"])
def test_engines_whose_default_is_known(name):
    assert is_engine(name)


@pytest.mark.parametrize("name", ["", "bash", "start-chat.sh", "llama", "python3"])
def test_of_anything_else_nobody_knows_the_default(name):
    assert not is_engine(name)


MARK = f"[…5000 bytes, sha256:{'0' * 64}]"


@pytest.mark.parametrize(
    "line",
    [
        f"llama-server -t 2 --grammar xxx {MARK}",
        "llama-server -t 2 --header Cookie:[redacted]",
        "llama-server -t 2 --header Authorization: [redacted]",
        "COOKIE=[redacted]",
        "echo '[redacted]",  # a private key hides all up to its end
    ],
)
def test_a_line_whose_end_may_be_missing_is_cut(line):
    said = asked_for(["sh", "-c", line], {}, "llama.cpp")
    assert said.cut
    assert said.threads == (2 if "-t" in line else None)
    assert asked_for(["sh", "-c", "sh -c " + shlex.quote(line)], {}, "llama.cpp").cut


@pytest.mark.parametrize(
    "line",
    [
        "llama-server -t 2 --api-key [redacted]",
        "llama-server --api-key [redacted] -t 2",
        "llama-server --api-key=[redacted] -t 2",
        "HF_TOKEN=[redacted] llama-server -t 2",
        "HTTPS_PROXY=http://[redacted]@proxy:80 llama-server -t 2",
        "export HF_TOKEN=[redacted]; llama-server -t 2",
    ],
)
def test_a_line_in_which_one_word_is_hidden_is_whole(line):
    assert asked_for(["sh", "-c", line], {}) == Asked(2, "-t 2")


def test_a_long_or_hidden_word_of_a_list_takes_nothing_along():
    words = ["llama-server", "--grammar", f"xxx {MARK}", "--header", "Cookie:[redacted]", "-t", "2"]
    assert asked_for(words, {}) == Asked(2, "-t 2")


def test_a_line_that_an_older_ledger_cut_is_cut():
    assert asked_for(f"llama-server -t 2 xx {MARK}".split(), {}).cut
    mark = MARK[:2] + "]"
    assert asked_for(["llama-server", "-t", "2", mark], {}).cut


@pytest.mark.parametrize(
    ("line", "limiter"),
    [
        ("docker run --cpus=2 img llama-server -t 4", "docker"),
        ("/usr/bin/docker run img", "docker"),
        ("sudo -E docker run img", "docker"),
        ("sudo -u me nice -n 5 taskset -c 0,1 llama-server -t 4", "taskset"),
        ("systemd-run --scope -p CPUQuota=200% llama-server", "systemd-run"),
        ("numactl --physcpubind=0-1 llama-server", "numactl"),
        ("bash -c 'cd /srv; exec taskset -c 0 llama-server -t 4'", "taskset"),
        ("kubectl run x --image y -- llama-server", "kubectl"),
        ("llama-server -t 4", ""),
        ("llama-server -t 4 --alias docker", ""),
        ("nice -n 5 chrt -b 0 stdbuf -oL env A=b llama-server -t 4", ""),
        ("start.sh /opt/docker/x", ""),
        ("start.sh /opt/docker", ""),
        ("llama-server -p 'use docker'", ""),
    ],
)
def test_which_program_brings_limits_of_its_own(line, limiter):
    assert limiter_in(shlex.split(line)) == limiter


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("/opt/llama-server -t 4", {"llama-server"}),
        ("-bash", {"bash"}),
        ("python3.11 -u /srv/mine.py x", {"mine.py"}),
        ("/usr/bin/python3 -m vllm.entrypoints.openai.api_server", {"vllm.entrypoints.openai.api_server"}),
        ("python3 -X dev -u /srv/mine.py", {"mine.py"}),
        ("python3 -W error", set()),
        ("python3", set()),
        ("", set()),
    ],
)  # fmt: skip
def test_the_names_that_a_process_goes_by(line, names):
    assert names_of(shlex.split(line)) == names


def test_what_only_waits_for_another_program_is_a_wrapper():
    for line in ("bash entry.sh", "tini -- x", "python3 /usr/bin/supervisord", "srun x", "-sh"):
        assert is_wrapper(shlex.split(line)), line
    for line in ("llama-server", "python3 server.py", "sleep 5", ""):
        assert not is_wrapper(shlex.split(line)), line


def test_what_a_command_starts_through_others():
    line = shlex.split("env A=b bash -c 'exec /opt/llama-server -t 4'")
    assert starts(line, frozenset({"llama-server"}))
    assert not starts(line, frozenset({"llama"}))
    assert not starts(line, frozenset())


@pytest.mark.parametrize(
    ("line", "gpus", "words"),
    [
        ("vllm serve m -tp 2", 2, "-tp 2"),
        ("vllm serve m --tensor-parallel-size=8", 8, "--tensor-parallel-size=8"),
        ("vllm serve m --tensor_parallel_size 4", 4, "--tensor_parallel_size 4"),
        ("vllm serve m -tp 4 -pp 2", 8, "-tp 4 -pp 2"),
        ("vllm serve m -tp 1 --pipeline-parallel-size 2", 2, "--pipeline-parallel-size 2"),
        ("python3 -m sglang.launch_server --tp-size 2", 2, "--tp-size 2"),
        ("python3 -m sglang.launch_server --tp 2 --pp-size 3", 6, "--tp 2 --pp-size 3"),
        ("text-generation-launcher --num-shard 2", 2, "--num-shard 2"),
        ("torchrun --nproc-per-node 8 train.py", 8, "--nproc-per-node 8"),
        ("bash -c 'exec vllm serve m -tp 2'", 2, "-tp 2"),
        ("docker run -it image vllm serve m -tp 2", 2, "-tp 2"),
        ("vllm serve m -tp 4 -tp 2", 2, "-tp 2"),
        ("vllm serve m -tp 2 -tp 1", 1, ""),
        ("vllm serve m", 1, ""),
        ("vllm serve m -tp", 1, ""),
        ("llama-server -t 8 -tb 8 --alias -tp", 1, ""),
        ("", 1, ""),
        ("vllm serve m -tp $N", None, "-tp $N"),
        ("torchrun --nproc_per_node=gpu train.py", None, "--nproc_per_node=gpu"),
        ("vllm serve m -tp 999999", None, "-tp 999999"),
    ],
)  # fmt: skip
def test_over_how_many_gpus_a_command_spreads_a_model(line, gpus, words):
    spread = spread_of(shlex.split(line))
    assert (spread.gpus, spread.words) == (gpus, words)
