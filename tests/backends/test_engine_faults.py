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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest

from embedding_models import write_bert
from llama_faults.build import build_dying_llama, build_faulty_llama
from mcp_servers.serving import serve
from rkllm_chat.backends.llama.processor import explain_illegal_instruction
from stage import Run, Screen

pytestmark = pytest.mark.model
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
TRIAL = """
import sys
from pathlib import Path
from rkllm_chat.backends.llama.trial_load import EngineParameters, try_model
print(try_model(Path(sys.argv[1]), EngineParameters()))
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


def test_a_model_whose_context_is_small_is_tried_with_several_tokens(
    install: Callable[..., Path], environment: dict[str, str], tmp_path: Path
) -> None:
    install()
    model = write_bert(tmp_path / "bert.gguf")
    done = subprocess.run(
        [sys.executable, "-c", TRIAL, str(model)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout == "Trial(extra_buffers=False, problem='')\n"


@dataclass
class Doors:
    """The ways to a model: each says hello and returns the exit code (0 for none) and what was said."""

    program: Run
    environment: dict[str, str]
    folder: Path
    open_screen: Callable[..., Screen]

    def engine(self) -> tuple[int, str]:
        return self._run_python(ENGINE)

    def library(self) -> tuple[int, str]:
        return self._run_python(LIBRARY)

    def print_mode(self) -> tuple[int, str]:
        return join(self.program(*ASKED, code=None))

    def doctor(self) -> tuple[int, str]:
        return join(self.program("doctor", code=None))

    def llm(self) -> tuple[int, str]:
        server = '[[servers]]\nname = "llm"\ncommand = "rkllm-chat"\nargs = ["serve", "llm"]\n[servers.env]\n'
        env = "".join(f'{name} = "${{{name}}}"\n' for name in ("LLAMA_CPP_LIB_PATH", "PYTHONHASHSEED"))
        (self.folder / "llm.toml").write_text(server + env, encoding="utf-8")
        return join(self.program("call-tool", "--config", "llm.toml", "llm.ask", "prompt=Hello!", code=None))

    def serve(self) -> tuple[int, str]:
        return join(self.program("serve", "openai", "--port", "0", code=None))

    def api(self) -> tuple[int, str]:
        hello: Any = {"model": "tiny-tools", "messages": [{"role": "user", "content": "Hello!"}]}
        options: dict[str, Any] = {"port_option": "--port", "env": self.environment, "cwd": self.folder}
        with serve("openai", "--no-check", **options) as served:
            key = served.headers.get("Authorization", "Bearer none").removeprefix("Bearer ")
            with closing(openai.OpenAI(base_url=served.url, api_key=key, max_retries=0, timeout=30)) as client:
                try:
                    return 0, str(client.chat.completions.create(**hello).choices[0].message.content)
                except openai.APIStatusError as error:
                    return error.status_code, ""

    def chat(self) -> tuple[int, str]:
        screen = self.open_screen("--no-servers", size=(250, 30))
        screen.wait_for("llama.cpp")
        said = "\n".join(screen.lines())
        return (screen.wait_for_end(), said) if DEATH in said else (0, said)

    def _run_python(self, code: str) -> tuple[int, str]:
        command = [sys.executable, "-c", code]
        return join(
            subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=50, check=False)
        )


def join(done: subprocess.CompletedProcess[str]) -> tuple[int, str]:
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def doors(program: Run, environment: dict[str, str], folder: Path, open_screen: Callable[..., Screen]) -> Doors:
    return Doors(program, environment, folder, open_screen)


@pytest.mark.slow  # each is a process that loads the engine
@pytest.mark.parametrize(
    ("door", "text"),
    [
        ("engine", "False"),
        ("library", HELLO),
        ("llm", HELLO),
        ("api", HELLO),
        ("doctor", "runs only without AMX_INT8, with which this build of llama.cpp fails here"),
        ("chat", NOTICE),
    ],
)
def test_a_faulty_build_answers_at_every_door(door: str, text: str, install: Callable[..., Path], doors: Doors) -> None:
    install()
    code, said = getattr(doors, door)()
    assert code == 0 and text in said


@pytest.mark.slow  # each is a process that tries the engine
@pytest.mark.parametrize(
    ("door", "exit_code"),
    [
        ("engine", 1),
        ("library", 1),
        ("print_mode", 5),
        ("llm", 1),
        ("serve", 5),
        ("doctor", 1),
        ("chat", 5),
    ],
)
def test_a_build_that_cannot_run_is_one_sentence_at_every_door(
    door: str, exit_code: int, install: Callable[..., Path], doors: Doors
) -> None:
    install(always=True)
    code, said = getattr(doors, door)()
    assert (code, sum(DEATH in line for line in said.splitlines())) == (exit_code, 1), said


@pytest.mark.slow  # a server that tries the engine
def test_the_api_answers_503_where_the_build_cannot_run(install: Callable[..., Path], doors: Doors) -> None:
    install(always=True)
    assert doors.api()[0] == 503


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
