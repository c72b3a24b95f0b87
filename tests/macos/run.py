"""Run tests as macOS would: without /proc, bubblewrap and the functions that Python has on Linux only.

    python -m tests.macos.run [ARGUMENTS OF PYTEST]

Without arguments it runs SUBSET. On Linux the processes see an empty /proc, by bubblewrap, so it needs user namespaces;
what macOS does in its own way (kqueue, dyld, FIONREAD of its pipes, refusing limits of memory) is not shown. On macOS
the tests run as they are.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from . import PROC_VARIABLE, SUBSET

ROOT = Path(__file__).parents[2]
NODES = ("null", "zero", "full", "random", "urandom", "tty", "pts")
STREAMS = {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}


def run(arguments: Sequence[str], **options: object) -> subprocess.CompletedProcess[str]:
    """Run pytest with arguments; standard output is captured with standard error."""
    if sys.platform == "darwin":
        return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=ROOT, encoding="utf-8", check=False)
    bubblewrap = shutil.which("bwrap")
    assert bubblewrap, "bubblewrap is not installed"
    with tempfile.TemporaryDirectory() as proc:
        command = [bubblewrap, "--dev-bind", "/", "/", "--proc", proc]
        command += ["--tmpfs", "/proc", "--remount-ro", "/proc", "--tmpfs", "/dev"]
        for node in NODES:
            command += ["--dev-bind-try", f"/dev/{node}", f"/dev/{node}"]
        for name, number in STREAMS.items():  # macOS has /dev/fd
            command += ["--symlink", f"{proc}/self/fd{number}", f"/dev/{name}"]
        command += ["--symlink", "pts/ptmx", "/dev/ptmx", "--tmpfs", "/dev/shm", "--ro-bind", "/dev/null", bubblewrap]
        command += [sys.executable, "-m", "pytest", *arguments]
        paths = [str(ROOT / "tests/macos"), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), PROC_VARIABLE: proc}
        environment.pop("REQUIRE_ALL", None)
        return subprocess.run(command, cwd=ROOT, env=environment, encoding="utf-8", check=False, **options)  # type: ignore[call-overload,no-any-return]


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:] or SUBSET).returncode)
