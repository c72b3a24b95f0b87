"""Command lines that run a Python module safely in an untrusted working directory.

`python -m` imports from the working directory first: a json.py next to a project's configuration would be executed.
"""

from __future__ import annotations

import os
import sys

_LAUNCHER = """
import sys
sys.path[:] = [place for place in sys.path if place]
sys.path.append(sys.argv.pop(1))
import runpy
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""


def run_module(name: str, *args: str) -> list[str]:
    """Return the command that runs a module of this package or of the standard library."""
    folder = os.path.abspath(os.path.join(__file__, "../../.."))
    return [sys.executable, "-c", _LAUNCHER, folder, name, *args]
