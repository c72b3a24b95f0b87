"""An MCP server that tries what a sandbox is to deny, and says what came of it. Standard library only; run as a file.

Its tool `do` takes a list of [what, argument ...], the rows of PROBES, and gives for each "ok ..." or why not.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PTRACE_SEIZE = 0x4206
LIMIT_S = 2.0
STAY = "--stay"
"""It does not end with its input; the word behind it is a file that it writes when it is asked to end."""


def read(path: str) -> str:
    return Path(path).expanduser().read_bytes().decode("utf-8", "replace")


def look(path: str) -> str:
    return stat.filemode(Path(path).expanduser().stat().st_mode)


def names(path: str) -> list[str]:
    return sorted(one.name for one in Path(path).expanduser().iterdir())


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
    descriptors = sorted(int(name) for name in names("/proc/self/fd"))[:-1]  # the last was for this list
    return {
        "environment": dict(os.environ),
        "descriptors": descriptors,
        "umask": oct(umask),
        "session": [os.getsid(0), os.getpgid(0)],
        "pid": os.getpid(),
        "limits": limits,
        "processes": resource.getrlimit(resource.RLIMIT_NPROC)[0],
        "oom": int(read("/proc/self/oom_score_adj")),
        "uid": os.getuid(),
        "privileges": [line.split()[1] for line in read("/proc/self/status").splitlines() if line.startswith("CapEff")],
    }


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


def end(how: int) -> None:
    if how < 0:
        os.kill(os.getpid(), -how)
        time.sleep(LIMIT_S)
    os._exit(how)


def exhaust() -> int:
    """Asks for more memory than it may have."""
    resource.setrlimit(resource.RLIMIT_AS, (256 << 20, 256 << 20))
    return len(bytearray(1 << 30))


PROBES: dict[str, Callable[..., Any]] = {
    "read": read,
    "look": look,
    "names": names,
    "write": write,
    "connect": connect,
    "send": send,
    "reach": reach,
    "seize": seize,
    "environments": environments,
    "about": about,
    "leave child": leave_child,
    "end": end,
    "exhaust": exhaust,
}
INFO = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "probe", "version": "1"}}
SCHEMA = {"type": "object", "properties": {"probes": {"type": "array"}, "fail": {"type": "boolean"}}}


def attempt(what: str, *arguments: Any) -> Any:
    try:
        found = PROBES[what](*arguments)
    except (OSError, MemoryError) as error:
        return f"{type(error).__name__}: {error}"
    return "ok" if found is None else found if isinstance(found, dict) else f"ok {found}"


def answer(message: dict[str, Any]) -> dict[str, Any] | None:
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        return INFO
    if method == "tools/list":
        return {"tools": [{"name": "do", "inputSchema": SCHEMA}]}
    if method != "tools/call":
        return None
    told = [attempt(*probe) for probe in params["arguments"]["probes"]]
    is_error = bool(params["arguments"].get("fail"))
    return {"content": [{"type": "text", "text": json.dumps(told)}], "isError": is_error}


def main() -> None:
    signal.signal(signal.SIGTERM, say_and_leave)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        result = answer(message)
        body = {"result": result} if result else {"error": {"code": -32601, "message": "not known"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}), flush=True)
    if STAY in sys.argv:
        time.sleep(60)


def say_and_leave(*_: object) -> None:
    if STAY in sys.argv:
        write(sys.argv[-1])
    os._exit(0)


if __name__ == "__main__":
    main()
