"""An MCP server that tries what a sandbox denies, and reports the results. Standard library only; run as a file.

Its tool `do` takes a list of [name of a function here, argument ...], and gives for each "ok ..." or the error.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

PTRACE_SEIZE = 0x4206
LIMIT_S = 2.0
NUMBERS = {
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "io_uring_setup": (425, 425),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "unshare": (272, 97),
    "clone": (56, 220),
}
"""Numbers of system calls on x86_64 and aarch64."""
STAY = "--stay"
"""Do not end with the input; the next argument is a file that is written on SIGTERM."""


def read(path: str) -> str:
    return Path(path).expanduser().read_bytes().decode("utf-8", "replace")


def look(path: str) -> str:
    return stat.filemode(Path(path).expanduser().stat().st_mode)


def names(path: str) -> list[str]:
    return sorted(entry.name for entry in Path(path).expanduser().iterdir())


def write(path: str) -> None:
    with Path(path).expanduser().open("a", encoding="utf-8") as file:
        file.write("the probe was here\n")


def connect(port: int) -> str:
    with socket.create_connection(("127.0.0.1", port), LIMIT_S) as connection:
        return connection.recv(100).decode()


def send(port: int) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(LIMIT_S)
        one.sendto(b"hello", ("127.0.0.1", port))
        return one.recv(100).decode()


def reach(pid: int) -> None:
    os.kill(pid, 0)


def seize(pid: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    library.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if library.ptrace(PTRACE_SEIZE, pid, None, None):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def environments() -> str:
    """All that can be read of the environments of all processes."""
    found = []
    for name in names("/proc"):
        if name.isdigit():
            try:
                found.append(read(f"/proc/{name}/environ"))
            except OSError:
                continue
    return "".join(found)


def about() -> dict[str, Any]:
    """What this process was started with."""
    umask = os.umask(0)
    os.umask(umask)
    limits = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[0] for name in ("CORE", "FSIZE", "NOFILE")}
    return {
        "environment": dict(os.environ),
        "descriptors": sorted(given_descriptors()),
        "umask": oct(umask),
        "session": [os.getsid(0), os.getpgid(0)],
        "pid": os.getpid(),
        "limits": limits,
        "processes": resource.getrlimit(resource.RLIMIT_NPROC)[0],
        "oom": int(read("/proc/self/oom_score_adj")),
        "uid": os.getuid(),
        "privileges": [line.split()[1] for line in read("/proc/self/status").splitlines() if line.startswith("CapEff")],
    }


def given_descriptors() -> Iterator[int]:
    """The open descriptors, without that which newer releases of libffi keep open for ctypes."""
    for name in names("/proc/self/fd"):
        with suppress(FileNotFoundError):  # it was for the list
            if "libffi" not in os.readlink(f"/proc/self/fd/{name}"):  # noqa: PTH115  # a pipe's is no path
                yield int(name)


def leave_child(word: str) -> None:
    """A child that leaves session and group, and keeps nothing of its environment by which it could be known."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(60)", word], {})
    os.close(writing)
    os.read(reading, 1)  # nothing, once the child is the other program
    os.close(reading)


def keyring(name: str) -> str:
    """The key of that name in the session's keyring."""
    search, read_key, session = 10, 11, -3
    key = call("keyctl", search, session, b"user", name.encode(), 0)
    buffer = ctypes.create_string_buffer(100)
    length = call("keyctl", read_key, key, buffer, 100)
    return buffer.raw[:length].decode()


def session() -> int:
    """The number of the session's keyring."""
    return call("keyctl", 0, -3, 0)


def add_key(name: str, value: str) -> None:
    """A new keyring for the session, with a key."""
    call("keyctl", 1, None)
    call("add_key", b"user", name.encode(), value.encode(), len(value), -3)


def open_socket(family: int) -> None:
    socket.socket(family, socket.SOCK_STREAM).close()


def kernel(name: str, *arguments: int | None) -> None:
    """A system call that returns a descriptor; None is 1 KB of zeros."""
    os.close(
        call(name, *(ctypes.create_string_buffer(1024) if argument is None else argument for argument in arguments))
    )


def call(name: str, *arguments: Any) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    result: int = library.syscall(NUMBERS[name][platform.machine() == "aarch64"], *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def make_namespace(how: str) -> None:
    """A child in a user namespace of its own."""
    user, child_signal = 0x10000000, 17
    if how == "clone":
        if (child := call("clone", user | child_signal, None, None, None, None)) == 0:
            os._exit(0)
    elif (child := os.fork()) == 0:
        try:
            call("unshare", user)
        except OSError as error:
            os._exit(error.errno or 1)
        os._exit(0)
    if number := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise OSError(number, os.strerror(number))


def work() -> str:
    """What programs need: threads, processes, pairs of sockets."""
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    for end in socket.socketpair():
        end.close()
    return subprocess.run(["/bin/echo", "done"], capture_output=True, check=True, text=True).stdout


def settings() -> list[str]:
    """The files of the kernel, beside those of processes, that can be opened for writing."""
    found = []
    for folder, folders, files in os.walk("/proc"):
        if folder == "/proc":
            folders[:] = [name for name in folders if not name.isdigit() and "self" not in name]
        for path in (f"{folder}/{name}" for name in files):
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            except OSError:
                continue
            found.append(path)
    return found


def plant(path: str) -> None:
    place = Path(path).expanduser()
    place.parent.mkdir(parents=True, exist_ok=True)
    write(path)


def replace(folder: str, path: str) -> None:
    """Move a folder away and plant a file in a new one."""
    place = Path(folder).expanduser()
    place.rename(place.with_name(f"{place.name}.old"))
    plant(path)


def end(how: int) -> None:
    if how < 0:
        os.kill(os.getpid(), -how)
        time.sleep(LIMIT_S)
    os._exit(how)


INFO = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "probe", "version": "1"}}
SCHEMA = {"type": "object", "properties": {"probes": {"type": "array"}, "fail": {"type": ["boolean", "string"]}}}


def attempt(what: str, *arguments: Any) -> Any:
    try:
        found = globals()[what.replace(" ", "_")](*arguments)
    except OSError as error:
        return f"{type(error).__name__}: {error}"
    return "ok" if found is None else found if isinstance(found, dict) else f"ok {found}"


def answer(message: dict[str, Any]) -> dict[str, Any]:
    """The result or the error of a request; a call may be told to fail, also by an "error"."""
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        return {"result": INFO}
    if method == "tools/list":
        return {"result": {"tools": [{"name": "do", "inputSchema": SCHEMA}]}}
    if method != "tools/call":
        return {"error": {"code": -32601, "message": "not known"}}
    text = json.dumps([attempt(*probe) for probe in params["arguments"]["probes"]])
    way = params["arguments"].get("fail")
    if way == "error":
        return {"error": {"code": -32603, "message": text}}
    return {"result": {"content": [{"type": "text", "text": text}], "isError": bool(way)}}


def main() -> None:
    signal.signal(signal.SIGTERM, say_and_leave)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer(message)}), flush=True)
    if STAY in sys.argv:
        time.sleep(60)


def say_and_leave(*_: object) -> None:
    if STAY in sys.argv:
        write(sys.argv[-1])
    os._exit(0)


if __name__ == "__main__":
    if "--with-key" in sys.argv:  # runs the command behind it in a session with that key
        add_key(*sys.argv[2:4])
        os.execvp(sys.argv[4], sys.argv[4:])
    main()
