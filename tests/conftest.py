"""What tests are handed: a user of his own, the program as a process, scripts, screens, the shipped model."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Callable, Coroutine, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest

from browser import BROWSER, find_browser
from fuzzing import load_profile
from real import REAL_SERVERS
from rkllm_chat import config
from rkllm_chat.backends import open_backend
from rkllm_chat.backends.llama import find_shipped_model
from rkllm_chat.backends.rkllm import Rkllm
from rkllm_chat.config import Generation, Settings
from rkllm_chat.journal import Shelf
from rkllm_chat.places import TRUST_VARIABLE
from rkllm_chat.servers.programs import SANDBOX_VARIABLE
from rkllm_runtime.build import build_runtime
from rows import Rows
from shell import Shell
from stage import GREEDY, PROGRAM, Screen
from targets import Targets

LIMIT_S = 30

for number in (signal.SIGINT, signal.SIGHUP):
    if (
        signal.getsignal(number) == signal.SIG_IGN
    ):  # a background job or nohup; every process of a test would inherit it
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

Result = TypeVar("Result")
Run = Callable[..., "subprocess.CompletedProcess[str]"]


LEFT_OUT = pytest.StashKey[dict[str, int]]()

# Mark -> what those tests need, and whether it is there.
NEEDS: dict[str, tuple[str, Callable[[], bool]]] = {
    "real": (
        f"real MCP servers: .ci/real_servers DIR, then {REAL_SERVERS}=DIR",
        lambda: bool(os.environ.get(REAL_SERVERS)),
    ),
    "sandbox": ("bubblewrap; ALLOW_NO_SANDBOX says to do without", lambda: not os.environ.get("ALLOW_NO_SANDBOX")),
    "root": ("root, who alone can give a file away", lambda: os.geteuid() == 0),
    "browser": (f"a browser: install chromium, or {BROWSER}=PROGRAM", lambda: bool(find_browser())),
}


def pytest_configure(config: pytest.Config) -> None:
    os.environ["LC_ALL"] = "C.UTF-8"  # what tests read is English wherever they run
    os.environ[SANDBOX_VARIABLE] = (
        "off"  # what servers of tests note in files is read; sandboxes have tests of their own
    )
    load_profile()
    config.pluginmanager.register(Rows(config))
    config.pluginmanager.register(Targets(config))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", action="store_true", help="write the recorded sessions of tests/terminal anew")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what needs something that is not on this machine; `pytest_terminal_summary` says so."""
    missing = [mark for mark, (_, is_there) in NEEDS.items() if not is_there()]
    left_out = {mark: [item for item in items if item.get_closest_marker(mark)] for mark in missing}
    gone = [item for group in left_out.values() for item in group]
    if gone:
        items[:] = [item for item in items if item not in gone]
        config.hook.pytest_deselected(items=gone)
    config.stash[LEFT_OUT] = {mark: len(group) for mark, group in left_out.items() if group}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for mark, count in terminalreporter.config.stash.get(LEFT_OUT, {}).items():
        terminalreporter.write_line(f"NOT TESTED: {count} tests need {NEEDS[mark][0]}", red=True, bold=True)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A user of his own, with an empty home."""
    home = tmp_path / "home"
    home.mkdir()
    inherited = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", SANDBOX_VARIABLE)
    kept = {name: os.environ[name] for name in inherited if name in os.environ}
    own = {"HOME": str(home), "LANG": "C.UTF-8", "TERM": "xterm"}
    return {**kept, **own, TRUST_VARIABLE: "1"}  # what a test writes into its folder is its user's own


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder to work in."""
    place = tmp_path / "work"
    place.mkdir()
    return place


@pytest.fixture
def shelf(environment: dict[str, str]) -> Shelf:
    """Where the program of this user keeps its sessions."""
    return Shelf(Path(environment["HOME"]) / ".local/state/rkllm-chat/sessions")


@pytest.fixture
def program(environment: dict[str, str], folder: Path) -> Run:
    """Runs `rkllm-chat` with arguments to its end."""

    def run(*arguments: str, stdin: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*PROGRAM, *arguments],
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            env=environment,
            cwd=folder,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def script(folder: Path) -> Callable[..., str]:
    """Writes replies for the scripted backend; gives the file's name."""

    def write(*replies: str | dict[str, Any]) -> str:
        (folder / "replies.json").write_text(json.dumps(replies), encoding="utf-8")
        return "replies.json"

    return write


@pytest.fixture(scope="session")
def shipped_model() -> Path:
    """The small GGUF; without it nothing here is proved, so its absence is a failure."""
    path = find_shipped_model()
    assert path.is_file(), f"the shipped model is missing: {path}"
    return path


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Layout's letter -> the stand-in for librkllmrt.so, compiled once."""

    @cache
    def compile_family(family: str) -> Path:
        return build_runtime(family, tmp_path_factory.mktemp(f"rkllm-{family}"))

    return compile_family


@pytest.fixture
def npu_model(shipped_model: Path, tmp_path: Path) -> Path:
    """The small model under a name that a board's owner would give it; nothing lies beside it."""
    path = tmp_path / "tiny-tools-rk3588.rkllm"
    path.symlink_to(shipped_model)
    return path


@pytest.fixture
def run() -> Iterator[Callable[[Coroutine[Any, Any, Result]], Result]]:
    """Runs coroutines on one loop."""
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
) -> Iterator[Callable[..., Rkllm]]:
    """Opens the NPU backend on the stand-in of a layout; its RKLLM_STANDIN_ variables are given in capitals."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    backends: list[Rkllm] = []

    def open_one(
        family: str = "G",
        generation: Generation = GREEDY,
        context: int = 2048,
        thinking: str = "auto",
        **options: Any,
    ) -> Rkllm:
        for name in [name for name in options if name.isupper()]:
            monkeypatch.setenv(f"RKLLM_STANDIN_{name}", options.pop(name))
        rkllm = config.Rkllm(library=str(compiled(family)), **options)
        settings = Settings(
            model=str(npu_model), rkllm=rkllm, generation=generation, context_tokens=context, thinking=thinking
        )
        backend = open_backend(settings)
        assert isinstance(backend, Rkllm)
        backends.append(backend)
        return backend

    yield open_one
    for backend in backends:
        run(backend.aclose())


@pytest.fixture
def open_screen(environment: dict[str, str], folder: Path) -> Iterator[Callable[..., Screen]]:
    """Starts `rkllm-chat` on a terminal of its own; ends it with the test."""
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
