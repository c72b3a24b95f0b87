"""The process that renders models' templates can do nothing but that, also where a template leaves Jinja's sandbox."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from rkllm_chat import prompt
from rkllm_chat.prompt.template_renderer import TemplateRejectedError, render_template

WORKER = Path(prompt.__file__).with_name("template_worker.py")
"""Not imported: it is a program, and takes the first place of the path of imports away."""
HAS_FILTER = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")
# What code in the worker would try; each line ends in the name of the error, or in "done".
ATTEMPTS = """
import importlib.util, json, os, signal, socket, sys
spec = importlib.util.spec_from_file_location("worker", sys.argv[1])
worker = importlib.util.module_from_spec(spec)
spec.loader.exec_module(worker)
if sys.argv[2] == "confined":
    worker.confine()

def attempt(do):
    try:
        do()
    except OSError as error:
        return type(error).__name__
    return "done"

def leave():
    if os.fork() == 0:
        os._exit(0)

def connect():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))

said = {
    "read a file": attempt(lambda: open("/etc/passwd").close()),
    "write a file": attempt(lambda: open("written", "w").close()),
    "list a folder": attempt(lambda: os.listdir("/")),
    "open a connection": attempt(connect),
    "start a process": attempt(leave),
    "run a program": attempt(lambda: os.posix_spawn("/bin/true", ["true"], {})),
    "signal a process": attempt(lambda: os.kill(os.getppid(), 0)),
    "environment": dict(os.environ).get("KEY", ""),
}
sys.stdout.write(json.dumps(said))
sys.stdout.flush()
os._exit(0)
"""


def attempt_all(mode: str, folder: Path) -> dict[str, str]:
    command = [sys.executable, "-c", ATTEMPTS, str(WORKER), mode]
    environment = {**os.environ, "KEY": "secret"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True, timeout=60)
    said: dict[str, str] = json.loads(done.stdout)
    return said


@pytest.mark.skipif(not HAS_FILTER, reason="system calls are filtered on Linux, x86-64 and aarch64")
def test_what_the_worker_could_do_before_it_confines_itself_is_refused_after(tmp_path: Path) -> None:
    before, after = attempt_all("free", tmp_path), attempt_all("confined", tmp_path)
    assert before.pop("environment") == "secret" and after.pop("environment") == ""
    assert set(before.values()) == {"done"}
    assert after == dict.fromkeys(before, "PermissionError")


def find_children() -> list[Path]:
    """The processes that the test has started, in /proc."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [Path("/proc", child) for child in children]


@pytest.mark.proc
def test_the_worker_is_confined_and_still_says_why_a_template_fails() -> None:
    assert render_template("{{ strftime_now('%Y') }} {{ [1] | pprint }}", {}, date.today().isoformat())
    with pytest.raises(TemplateRejectedError, match="no roles"):
        render_template("{{ raise_exception('no roles') }}", {})
    with pytest.raises(TemplateRejectedError, match="unexpected"):
        render_template("{{ }", {})
    [worker] = [child for child in find_children() if b"template_worker.py" in (child / "cmdline").read_bytes()]
    names = {line.partition(b"=")[0] for line in (worker / "environ").read_bytes().split(b"\0") if line}
    assert names <= {b"HOME", b"LD_LIBRARY_PATH", b"PYTHONHOME", b"PYTHONPATH", b"PYTHONUSERBASE", b"LC_CTYPE"}
    status = dict(line.split(":\t") for line in (worker / "status").read_text().splitlines())
    assert not HAS_FILTER or (status["Seccomp"], status["NoNewPrivs"]) == ("2", "1")
