"""Fixtures: an isolated user, the program as a process, scripted replies, terminals, the bundled model."""
# ruff: noqa: E402 - modules are imported once their compiled code may be kept

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

gc.disable()  # until the tests are collected
# Set in some images of Python: each worker would compile all modules and rewrite their assertions anew (10 s of CPU).
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# isort: off
from isolated_user import HOME, SITE, empty  # before the product is imported

# isort: on
from browser import BROWSER, find_browser
from cpu_time import begin_test
from engine_fault import STATE, EngineGate, find_engine_fault, stop_without
from fork_server import run as run_forked
from fuzzing import load_profile
from real import REAL_SERVERS
from real_models import REAL_MODELS
from shell import Shell
from stage import GREEDY, PROGRAM, Run, Screen, live_as, run_here

if TYPE_CHECKING:
    from rkllm_chat.backends.rkllm.backend import RkllmBackend
    from rkllm_chat.config.settings import Generation
    from rkllm_chat.storage.session_files import SessionDirectory

LIMIT_S = 30
SANDBOX = "RKLLM_CHAT_SANDBOX"

for number in (signal.SIGINT, signal.SIGHUP):
    if (
        signal.getsignal(number) == signal.SIG_IGN
    ):  # a background job or nohup; every process of a test would inherit it
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

Result = TypeVar("Result")

# Mark -> what its tests need, and whether it is on this machine.
NEEDS: dict[str, tuple[str, Callable[[], object]]] = {
    "proc": ("there is no /proc", lambda: Path("/proc/self").exists()),
    "sandbox": ("bubblewrap is not installed", lambda: shutil.which("bwrap")),
    "root": ("only root can give files away", lambda: os.geteuid() == 0),
    "shells": ("zsh and fish are not installed", lambda: shutil.which("zsh") and shutil.which("fish")),
    "browser": (f"chromium is not installed; {BROWSER}=PROGRAM names another browser", find_browser),
    "site": (
        f"a built site: mkdocs build --strict -d DIR, then {SITE}=DIR",
        lambda: os.environ.get(SITE),
    ),
    "real": (
        f"MCP servers of others: .ci/real_servers DIR, then {REAL_SERVERS}=DIR",
        lambda: os.environ.get(REAL_SERVERS),
    ),
    "real_model": (
        f"models of others: .ci/real_models DIR, then {REAL_MODELS}=DIR",
        lambda: os.environ.get(REAL_MODELS),
    ),
}


def pytest_configure(config: pytest.Config) -> None:
    if config.option.verbose == 0:
        config.option.verbose = -1  # as with -q; in addopts it would add to a -q of the command line, to no result line
    config.add_cleanup(partial(shutil.rmtree, HOME, ignore_errors=True))
    os.environ["LC_ALL"] = "C.UTF-8"  # tests expect English in every locale
    os.environ[SANDBOX] = "off"  # tests read the files that servers write; sandboxes have tests of their own
    # llama.cpp takes a thread per core, and they wait by spinning: beside other tests that costs ten times the CPU
    multiprocessing.cpu_count = lambda: 1
    sys.meta_path.insert(0, EngineGate())
    load_profile()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One worker more than cores: a third of the time tests wait for other processes (measured)."""
    return (os.cpu_count() or 1) + 1


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record",
        action="store_true",
        help="write recorded sessions, prompts and the table of docs/trust-keys.md anew",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Exempt what lives as long as the process from garbage collections: a sixth of the CPU time (measured)."""
    gc.freeze()
    gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs what is not on this machine, or fail it under REQUIRE_ALL."""
    for mark, (missing, is_there) in NEEDS.items():
        if item.get_closest_marker(mark) and not is_there():
            stop_without(missing)
    if item.get_closest_marker("model"):
        stop_without(find_engine_fault())
    empty(HOME)
    begin_test()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count and name what was skipped."""
    reasons = Counter(str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", ()))
    for reason, count in reasons.items():
        terminalreporter.write_line(f"{count} skipped: {reason.removeprefix('Skipped: ')}", yellow=True)


@pytest.fixture
def environment(tmp_path: Path, request: pytest.FixtureRequest) -> dict[str, str]:
    """Return the environment of an isolated user, whose home is empty but for what is known of llama.cpp here."""
    home = tmp_path / "home"
    home.mkdir()
    if request.node.get_closest_marker("model") and STATE.is_dir():  # else each test tries it for 0.7 s of CPU
        shutil.copytree(STATE, home / ".local/state")
    inherited = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LLAMA_CPP_LIB_PATH", SANDBOX)
    kept = {name: os.environ[name] for name in inherited if name in os.environ}
    own = {"HOME": str(home), "LANG": "C.UTF-8", "TERM": "xterm"}
    return {**kept, **own, "RKLLM_CHAT_TRUST_PROJECT": "1"}  # what a test writes into its folder is its user's own


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder to work in."""
    place = tmp_path / "work"
    place.mkdir()
    return place


@pytest.fixture
def shelf(environment: dict[str, str]) -> SessionDirectory:
    """The session folder of the isolated user."""
    from rkllm_chat.storage.session_files import SessionDirectory

    return SessionDirectory(Path(environment["HOME"]) / ".local/state/rkllm-chat/sessions")


@pytest.fixture
def program(environment: dict[str, str], folder: Path) -> Run:
    """Run `rkllm-chat` to its end."""

    def run(*arguments: str, stdin: str = "", code: int | None = 0) -> subprocess.CompletedProcess[str]:
        done = run_forked(
            [*PROGRAM, *arguments], input=stdin, encoding="utf-8", env=environment, cwd=folder, timeout=LIMIT_S
        )
        assert code in (None, done.returncode), done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def in_process(environment: dict[str, str], folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `rkllm-chat` to its end in this process: for errors, where no process is the point."""

    def run(*arguments: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        with live_as(environment, folder):
            done = subprocess.CompletedProcess(arguments, run_here(*arguments), *capsys.readouterr())
        assert code in (None, done.returncode), done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def script(folder: Path) -> Callable[..., str]:
    """Write replies for the scripted backend; return the name of the file."""

    def write(*replies: str | dict[str, Any]) -> str:
        (folder / "replies.json").write_text(json.dumps(replies), encoding="utf-8")
        return "replies.json"

    return write


@pytest.fixture(scope="session")
def shipped_model() -> Path:
    """Return the bundled small GGUF; a missing file is a failure."""
    from rkllm_chat.backends.shared.model_files import find_shipped_model

    path = find_shipped_model()
    assert path.is_file(), f"the shipped model is missing: {path}"
    return path


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Layout's letter -> the stand-in for librkllmrt.so, compiled once."""

    from rkllm_runtime.build import build_runtime

    @cache
    def compile_family(family: str) -> Path:
        stop_without(find_engine_fault())  # it runs a GGUF
        return build_runtime(family, tmp_path_factory.mktemp(f"rkllm-{family}"))

    return compile_family


@pytest.fixture
def npu_model(shipped_model: Path, tmp_path: Path) -> Path:
    """Return the small model under a typical .rkllm name, without a tokenizer next to it."""
    path = tmp_path / "tiny-tools-rk3588.rkllm"
    path.symlink_to(shipped_model)
    return path


@pytest.fixture
def run() -> Iterator[Callable[[Coroutine[Any, Any, Result]], Result]]:
    """Run coroutines on one event loop."""
    loop = asyncio.new_event_loop()
    yield loop.run_until_complete
    loop.run_until_complete(loop.shutdown_asyncgens())  # as asyncio.run does
    loop.close()


@pytest.fixture
def open_npu(
    compiled: Callable[[str], Path],
    npu_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: Callable[..., Any],
) -> Iterator[Callable[..., RkllmBackend]]:
    """Open the NPU backend on the stand-in of a layout; options in capitals are its RKLLM_STANDIN_ variables."""
    from rkllm_chat.backends import open_backend
    from rkllm_chat.backends.rkllm.backend import RkllmBackend
    from rkllm_chat.config import settings as config

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    backends: list[RkllmBackend] = []

    def open_one(
        family: str = "G",
        generation: Generation = GREEDY,
        context: int = 2048,
        thinking: config.Thinking = "auto",
        **options: Any,
    ) -> RkllmBackend:
        for name in [name for name in options if name.isupper()]:
            monkeypatch.setenv(f"RKLLM_STANDIN_{name}", options.pop(name))
        rkllm = config.Rkllm(library=str(compiled(family)), **options)
        settings = config.Settings(
            model=str(npu_model), rkllm=rkllm, generation=generation, context_tokens=context, thinking=thinking
        )
        backend = open_backend(settings)
        assert isinstance(backend, RkllmBackend)
        backends.append(backend)
        return backend

    yield open_one
    for backend in backends:
        run(backend.aclose())


@pytest.fixture
def open_screen(environment: dict[str, str], folder: Path) -> Iterator[Callable[..., Screen]]:
    """Start `rkllm-chat` on a terminal; it is closed after the test."""
    screens: list[Screen] = []

    def start(*arguments: str, size: tuple[int, int] = (100, 30), **variables: str) -> Screen:
        screens.append(Screen(arguments, {**environment, **variables}, folder, size))
        return screens[-1]

    yield start
    for screen in screens:
        screen.close()


@pytest.fixture
def shell(environment: dict[str, str], folder: Path) -> Shell:
    """One-shot commands in an empty folder."""
    return Shell(folder, environment)
