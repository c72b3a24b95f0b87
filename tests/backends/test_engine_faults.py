"""A build of llama.cpp that fails on this processor: what works is found out in another process, once.

Programs reach it by the engine alone or by the backend. The build is a stand-in (tests/llama_faults): it dies of SIGILL
at a prompt of several tokens, as one of GCC 12.2 does on a processor with AMX.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from embedding_models import write_bert
from llama_faults.build import build_dying_llama, build_faulty_llama
from rkllm_chat.backends.llama.processor import explain_illegal_instruction
from stage import OpenScreen, Run

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


def run_engine(environment: dict[str, str]) -> tuple[int, str]:
    """Use the engine by itself, as benchmarks do; gives the exit code and what was said."""
    command = [sys.executable, "-c", ENGINE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow  # processes that load the engine
def test_a_faulty_build_answers_and_the_doctor_and_the_chat_say_how(
    install: Callable[..., Path], program: Run, environment: dict[str, str], open_screen: OpenScreen
) -> None:
    install()
    assert run_engine(environment) == (0, "False\n")
    said = "runs only without AMX_INT8, with which this build of llama.cpp fails here"
    assert said in program("doctor").stdout
    assert NOTICE in "\n".join(open_screen("--no-servers", size=(250, 30)).wait_for("llama.cpp"))


@pytest.mark.slow  # processes that try the engine
def test_a_build_that_cannot_run_is_one_sentence(
    install: Callable[..., Path], program: Run, environment: dict[str, str]
) -> None:
    install(always=True)
    code, raised = run_engine(environment)
    answered, examined = program(*ASKED, code=5), program("doctor", code=1)
    for said in (raised, answered.stdout + answered.stderr, examined.stdout + examined.stderr):
        assert sum(DEATH in line for line in said.splitlines()) == 1, said
    assert code == 1


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
