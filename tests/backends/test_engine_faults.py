"""A build of llama.cpp that fails on this processor: what works is found out in another process, once, at every door.

The build is a stand-in (tests/llama_faults): it dies of SIGILL at a prompt of several tokens, as one of GCC 12.2 does
on a processor with AMX.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import openai
import pytest

from llama_faults.build import build_dying_llama, build_faulty_llama
from mcp_servers.serving import serve
from rkllm_chat.backends.llama.processor import explain_illegal_instruction
from stage import Screen

pytestmark = pytest.mark.model
Run = Callable[..., "subprocess.CompletedProcess[str]"]
ASKED = ("--no-servers", "-p", "Hello!")
NOTICE = "This build of llama.cpp fails with AMX here; it runs without it"
DEATH = "tiny-tools.gguf: llama.cpp was ended by SIGILL while it loaded this file: it was built with AMX_INT8"
HELLO = "Hello! How can I help you?"
TESTS = (
    "tests/backends/test_llama_grammar_sampler.py",  # imports llama.cpp when it is collected
    "tests/backends/test_llama.py::test_the_whole_window_can_be_used_where_llama_cpp_makes_it_larger",
    "tests/cli/test_doctor.py::test_the_fix_script_of_a_board_in_good_order_changes_nothing",  # starts the program
)
LIBRARY = """
from rkllm_chat import Chat
with Chat.sync() as chat:
    print(chat.ask("Hello!").text)
"""
ENGINE = """
from rkllm_chat.backends.llama.engine import load_engine
from rkllm_chat.backends.shared.model_files import find_shipped_model
engine = load_engine(find_shipped_model(), 0)
engine.eval(range(5, 105))
print(engine.extra_buffers)
"""


@pytest.fixture
def install(environment: dict[str, str], tmp_path: Path) -> Callable[..., Path]:
    """Let the programs that a test starts use a faulty llama.cpp in place of the installed one."""

    def install(**options: bool) -> Path:
        library = build_faulty_llama(tmp_path / "faulty", **options)
        environment["LLAMA_CPP_LIB_PATH"] = str(library.parent)
        environment["PYTHONHASHSEED"] = "5"  # new processes: a forked one has the installed llama.cpp already
        return library

    return install


def run_python(code: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)


def list_records(environment: dict[str, str]) -> list[Path]:
    return sorted(Path(environment["HOME"], ".local/state/rkllm-chat/loaded-models").iterdir())


def test_a_faulty_build_answers_without_extra_buffers_and_says_so_once(
    install: Callable[..., Path], program: Run, environment: dict[str, str]
) -> None:
    library, before = install(), list_records(environment)
    first, second = program(*ASKED), program(*ASKED)
    assert (first.stdout, second.stdout) == (f"{HELLO}\n", f"{HELLO}\n")
    assert NOTICE in first.stderr and second.stderr == ""
    (record,) = set(list_records(environment)) - set(before)
    assert json.loads(record.read_bytes()) == {"extra_buffers": False, "problem": ""}
    (library.parent / "libggml-cpu.so").unlink()  # another build is tried and told again
    (library.parent / "libggml-cpu.so").symlink_to(library.parent / "libggml.so")
    assert NOTICE in program(*ASKED).stderr


@pytest.mark.slow  # each door is a process that loads the engine
def test_a_faulty_build_answers_at_every_door(
    install: Callable[..., Path],
    program: Run,
    environment: dict[str, str],
    folder: Path,
    open_screen: Callable[..., Screen],
) -> None:
    install()
    assert run_python(ENGINE, environment).stdout == "False\n"
    assert run_python(LIBRARY, environment).stdout == f"{HELLO}\n"
    assert ask_api(environment, folder) == HELLO
    called = program(*ask_llm(folder))
    assert HELLO in called.stdout
    rows = {line["name"]: line for line in json.loads(program("doctor", "--json").stdout)["result"]["lines"]}
    assert rows["model"]["state"] == "warn" and "runs only without AMX_INT8" in rows["model"]["value"]
    assert "pip install --force-reinstall" in rows["model"]["advice"]
    screen = open_screen("--no-servers")
    screen.wait_for(NOTICE)
    screen.say("Hello!\r", HELLO)


@pytest.mark.slow  # each door is a process that tries the engine
def test_a_build_that_cannot_run_is_one_sentence_for_scripts(
    install: Callable[..., Path], program: Run, environment: dict[str, str]
) -> None:
    install(always=True)
    for code in (ENGINE, LIBRARY):
        assert DEATH in run_python(code, environment).stderr.splitlines()[-1]
    done = program(*ASKED, code=5)
    assert DEATH in done.stderr and done.stderr.count("\n") == 1
    rows = {line["name"]: line for line in json.loads(program("doctor", "--json", code=1).stdout)["result"]["lines"]}
    assert rows["model"]["state"] == "wrong" and DEATH in rows["model"]["value"]


@pytest.mark.slow  # each door is a process that tries the engine
def test_a_build_that_cannot_run_is_one_sentence_of_servers_and_the_chat(
    install: Callable[..., Path],
    program: Run,
    environment: dict[str, str],
    folder: Path,
    open_screen: Callable[..., Screen],
) -> None:
    install(always=True)
    done = program("serve", "openai", "--port", "0", code=5)
    assert DEATH in done.stderr and done.stderr.count("\n") == 1
    with pytest.raises(openai.InternalServerError) as caught:
        ask_api(environment, folder, "--no-check")
    assert caught.value.status_code == 503
    called = program(*ask_llm(folder), code=1)
    assert DEATH in json.loads(called.stdout)["error"]["message"]
    screen = open_screen("--no-servers")
    screen.wait_for("llama.cpp was ended by SIGILL")
    assert screen.wait_for_end() == 5


def ask_api(environment: dict[str, str], folder: Path, *options: str) -> str:
    """Ask `serve openai`."""
    hello: Any = {"model": "tiny-tools", "messages": [{"role": "user", "content": "Hello!"}]}
    with serve("openai", *options, port_option="--port", env=environment, cwd=folder) as served:
        key = served.headers.get("Authorization", "Bearer none").removeprefix("Bearer ")
        with closing(openai.OpenAI(base_url=served.url, api_key=key, max_retries=0, timeout=30)) as client:
            return str(client.chat.completions.create(**hello).choices[0].message.content)


def ask_llm(folder: Path) -> list[str]:
    """Write a configuration with the bundled server llm; return the arguments that ask it."""
    server = '[[servers]]\nname = "llm"\ncommand = "rkllm-chat"\nargs = ["serve", "llm"]\n'
    env = "\n".join(f'{name} = "${{{name}}}"' for name in ("LLAMA_CPP_LIB_PATH", "PYTHONHASHSEED"))
    (folder / "llm.toml").write_text(f"{server}[servers.env]\n{env}\n", encoding="utf-8")
    return ["call-tool", "llm.ask", "--args", '{"prompt": "Hello!"}', "--config", "llm.toml"]


@pytest.mark.slow  # a run of pytest
@pytest.mark.parametrize(("dies_at", "required"), [("a prompt", ""), ("its loading", "1")])
def test_tests_of_models_are_skipped_with_the_reason_where_the_build_cannot_run(
    dies_at: str, required: str, install: Callable[..., Path], environment: dict[str, str]
) -> None:
    library = install(always=True)
    if dies_at == "its loading":
        build_dying_llama(library, "SIGILL")
    command = [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider", *TESTS]
    done = subprocess.run(
        command,
        env={**environment, "REQUIRE_ALL": required},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    reasons = [line for line in done.stdout.splitlines() if "tiny-tools.gguf: llama.cpp was ended by SIGILL" in line]
    assert reasons and bool(done.returncode) == bool(required), done.stdout
    if not required:
        (reason,) = reasons
        assert " skipped: " in reason and "1 passed" in done.stdout


@pytest.mark.parametrize(
    ("used", "present", "cause", "advice"),
    [
        ("AVX2 AVX512", "AVX2", "it was built with AVX512, which this processor lacks", "Build it here: pip install"),
        ("AVX2 AMX_INT8", "AVX2 AMX_INT8", "it was built with AMX_INT8, which fails here", "CFLAGS=-mno-amx-int8 CXX"),
        ("AVX2 FMA", "AVX2 FMA", "it was built with AVX2, FMA, of which one fails here", "-DGGML_NATIVE=OFF pip"),
        ("AVX2", "", "it was built with AVX2, of which one fails here", "-DGGML_NATIVE=OFF pip"),
        ("", "AVX2", "", "-DGGML_NATIVE=OFF pip"),
    ],
)
def test_an_illegal_instruction_is_explained_by_what_the_build_uses(
    used: str, present: str, cause: str, advice: str
) -> None:
    found = explain_illegal_instruction(frozenset(used.split()), present.split())
    assert found[0] == cause and advice in found[1]
