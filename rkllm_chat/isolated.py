"""How a module is run by this Python in a folder that may be anybody's: nothing of that folder is imported.

`python -m` itself would import from there first: a file json.py beside a project's configuration would be run.
"""

from __future__ import annotations

import os
import sys

MODULE = """
import sys
sys.path[:] = [place for place in sys.path if place]
sys.path.append(sys.argv.pop(1))
import runpy
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""


def run_module(name: str, *args: str) -> list[str]:
    """The command that runs a module, ours or of Python's own, with these arguments."""
    return [sys.executable, "-c", MODULE, os.path.dirname(os.path.dirname(os.path.abspath(__file__))), name, *args]
