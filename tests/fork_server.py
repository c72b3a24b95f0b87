"""Start `rkllm-chat` and `mcp-tool` without paying 0.7 s of imports for every process.

A fork server imports the product once. `start` and `run` give processes that are forked from that server: real
processes with their own environment, folder, standard streams, signals and exit code, which start in 10 ms. What a
forked process cannot show (import time, start of the interpreter, command line and environment in /proc) needs
`forks=False`.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import json
import multiprocessing
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

MODULES = ("rkllm_chat", "rkllm_chat.cli.mcp_tool")
LLAMA = "llama_cpp"
ENGINES = ("encodings.idna", "httpx2", "jinja2", "jsonschema", LLAMA, "mcp.client.stdio", "mcp.server")
NO_ENGINE = "no engine"
"""Argument of the server where llama.cpp does not run."""
IMPORTED_LATE = (  # by these and by the product, in most processes
    "anyio._backends._asyncio",
    "encodings.ascii",
    "encodings.utf_8_sig",
    "httpcore2",
    "markdown_it",
    "prompt_toolkit.input.vt100",
    "rich.console",
    "rich.logging",
    "snowballstemmer",
    "truststore",
    "uvicorn.lifespan.off",
)
STREAMS = 3
WORD = 4
"""Bytes of a number in a message."""
READY = b"ready"
SERVERS: list[subprocess.Popen[bytes]] = []
"""Kept, so that the server is not collected while it runs."""


def start(
    command: Sequence[str], *, forks: bool = True, owns_terminal: bool = False, **options: Any
) -> subprocess.Popen[Any]:
    """Start a command with the options of `subprocess.Popen`; one of the product is forked, unless `forks` is False.

    With `owns_terminal` it leads a session of its own, with standard input as its controlling terminal. Nothing is
    forked where the environment gives the interpreter other variables than this process has.
    """
    is_ours = list(command[:2]) == [sys.executable, "-m"] and command[2] in MODULES
    given = options.get("env") or os.environ
    if forks and is_ours and all(os.environ.get(name) == given[name] for name in given if name.startswith("PYTHON")):
        return Process(command, owns_terminal, **options)
    if owns_terminal:
        options["preexec_fn"] = take_terminal
    return subprocess.Popen(command, **options)


def run(
    command: Sequence[str],
    *,
    input: str | bytes | None = None,  # noqa: A002  # as in `subprocess.run`
    timeout: float = 30,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """Run a command to its end as `start` does; standard output and error are captured."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    if input is not None:
        options["stdin"] = subprocess.PIPE
    with start(command, **options) as process:
        try:
            output, errors = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


class Process(subprocess.Popen[Any]):
    """A forked process of the product: `[sys.executable, "-m", MODULE, *arguments]`."""

    def __init__(self, command: Sequence[str], owns_terminal: bool, **options: Any) -> None:
        self._owns_terminal = owns_terminal
        self._status: socket.socket | None = None
        super().__init__(command, **options)

    def _execute_child(self, args: Any, *rest: Any) -> None:
        # (args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
        #  p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, ...), the same in Python 3.10 to 3.14
        folder, environment, pipes = rest[4], rest[5], rest[9:15]
        request = {
            "module": args[2],
            "arguments": [os.fsdecode(word) for word in args[3:]],
            "folder": str(folder or Path.cwd()),
            "environment": dict(os.environ if environment is None else environment),
            "owns_terminal": self._owns_terminal,
            "umask": os.umask(0),
        }
        os.umask(request["umask"])
        streams = [number if pipe == -1 else pipe for number, pipe in enumerate((pipes[0], pipes[3], pipes[5]))]
        self._status, theirs = socket.socketpair()
        with theirs:
            send(connect(), request, [*streams, theirs.fileno()])
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        self.pid = int.from_bytes(self._status.recv(WORD), "big")
        assert self.pid, "the fork server has ended"
        self._child_created = True

    def __del__(self, *_: Any) -> None:
        """Do nothing: the base class would poll this object at each later Popen, to reap what the fork server reaps.

        After a test that timed out the collector may have closed the socket before, and each later Popen failed.
        """

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        assert self._status
        if wait_flags & os.WNOHANG and not select.select([self._status], [], [], 0)[0]:
            return 0, 0
        with self._status:
            return self.pid, int.from_bytes(self._status.recv(WORD), "big")

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None:
            pid, status = self._try_wait(os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


@cache
def connect() -> socket.socket:
    """The connection to the fork server of this process, which ends with it."""
    from engine_fault import find_engine_fault

    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, __file__, str(theirs.fileno()), *([NO_ENGINE] if find_engine_fault() else [])]
        SERVERS.append(subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL))
    assert ours.recv(len(READY)) == READY, "the fork server did not start"
    return ours


def send(connection: socket.socket, request: dict[str, Any], streams: list[int]) -> None:
    text = json.dumps(request).encode()
    socket.send_fds(connection, [len(text).to_bytes(WORD, "big")], streams)
    connection.sendall(text)


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """The next request and its streams, of which the last is for reports; exits when the connection is closed."""
    length, streams, *_ = socket.recv_fds(connection, WORD, STREAMS + 1)
    if not length:
        sys.exit()
    return json.loads(connection.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL)), streams


def serve(connection: socket.socket, has_engine: bool) -> NoReturn:
    """Fork a process for each request and report its number, and later how it ended, until the connection is closed."""
    gc.disable()
    preload(has_engine)
    gc.enable()
    gc.freeze()  # objects that exist now are not visited again, so their memory stays shared
    ended, wakes = socket.socketpair()  # readable when a child has ended
    for end in (ended, wakes):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    reports: dict[int, int] = {}
    connection.sendall(READY)
    while True:
        ready = select.select([connection, ended], [], [])[0]
        if ended in ready:
            ended.recv(1 << 10)
            report_ended(reports)
        if connection not in ready:
            continue
        request, streams = receive(connection)
        report = streams.pop()
        child = os.fork()
        if child == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for end in (connection, ended, wakes):
                end.close()
            for other in (report, *reports.values()):
                os.close(other)
            become(request, streams)
        for stream in streams:
            os.close(stream)
        reports[child] = report
        tell(report, child)


def report_ended(reports: dict[int, int]) -> None:
    """Report how each child ended that has ended."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            report = reports.pop(ended[0])
            tell(report, ended[1])
            os.close(report)


def tell(report: int, number: int) -> None:
    with suppress(OSError):  # the test may have ended
        os.write(report, number.to_bytes(WORD, "big"))


def preload(has_engine: bool) -> None:
    """Import what commands import, engines too if they run here, and read what all read of the product's own files."""
    import rkllm_chat
    from rkllm_chat.core import i18n

    if not has_engine:
        sys.modules[LLAMA] = None  # type: ignore[assignment]  # importing it is an error, not the end of this process
    packages = pkgutil.walk_packages(rkllm_chat.__path__, "rkllm_chat.")
    ours = [package.name for package in packages if ".template" not in package.name]
    for name in (*ours, *ENGINES, *IMPORTED_LATE):
        with nullcontext() if has_engine else suppress(ImportError):
            import_module(name)
    if not has_engine:
        del sys.modules[LLAMA]
    multiprocessing.cpu_count = lambda: 1  # threads of llama.cpp, which spin; see conftest
    i18n.load()
    rkllm_chat.ToolCallScanner([]).feed("x")  # compiles the expressions of all formats


def become(request: dict[str, Any], streams: list[int]) -> NoReturn:
    """Be a new process of the product, and exit as an interpreter does."""
    code: Any = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        for stream in streams:
            if stream > 2:
                os.close(stream)
        prepare(request)
        code = run_main(request["module"])
    except BaseException:
        traceback.print_exc()
    leave(code)


def prepare(request: dict[str, Any]) -> None:
    """Set what a new process inherits or makes at its start."""
    if request["owns_terminal"]:
        take_terminal()
    os.umask(request["umask"])
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    tempfile.tempdir = None
    signal.signal(signal.SIGINT, signal.default_int_handler)
    options: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogateescape", "closefd": False}  # as in C.UTF-8
    sys.stdin = open(0, **options)  # noqa: SIM115
    sys.stdout = open(1, "w", **options)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, **{**options, "errors": "backslashreplace"})  # noqa: SIM115
    sys.argv = [request["module"], *request["arguments"]]


def take_terminal() -> None:
    """Lead a session whose controlling terminal is standard input."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def run_main(module: str) -> Any:
    """Call `main` of a module's `__main__`; give what it returns or hands to `sys.exit`."""
    try:
        return import_module(f"{module}.__main__").main()
    except SystemExit as end:
        return end.code
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)


def leave(code: Any) -> NoReturn:
    """Exit with what `sys.exit` was given."""
    if isinstance(code, str):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
    atexit._run_exitfuncs()  # noqa: SLF001
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        code = 120  # as the interpreter does
    os._exit(code or 0)


if __name__ == "__main__":
    sys.path.pop(0)  # imports are those of `python -m`, not of the folder of the tests
    serve(socket.socket(fileno=int(sys.argv[1])), NO_ENGINE not in sys.argv)
