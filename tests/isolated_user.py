"""The user that tests run as: nobody's files, whoever runs the tests and whatever they did with the program before.

Each worker has a home of its own, which is empty before each test; variables that the program reads are unset.
"""

from __future__ import annotations

import os
import shutil
import site
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

from browser import BROWSER
from fuzzing import FUZZ
from macos import PROC_VARIABLE
from real import REAL_SERVERS
from real_models import REAL_MODELS

SITE = "RKLLM_CHAT_SITE"
"""Names the folder of the built documentation."""
_OF_TESTS = {BROWSER, FUZZ, PROC_VARIABLE, REAL_MODELS, REAL_SERVERS, SITE}
_PREFIXES = ("XDG_", "RKLLM_", "CODEX_", "COPILOT_", "CLAUDE_", "OPENAI_", "ANTHROPIC_", "HF_")
_NAMES = {
    "EDITOR",
    "VISUAL",
    "PAGER",
    "NO_COLOR",
    "FORCE_COLOR",
    "COLORTERM",
    "COLORFGBG",
    "TERM_PROGRAM",
    "LC_TERMINAL",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
}


def isolate(environment: MutableMapping[str, str] = os.environ) -> Path:
    """Give an environment the home of nobody; return it."""
    for name in list(environment):
        if name not in _OF_TESTS and (name.startswith(_PREFIXES) or name.upper() in _NAMES):
            del environment[name]
    if site.ENABLE_USER_SITE and Path(site.getusersitepackages()).is_dir():
        environment["PYTHONUSERBASE"] = site.getuserbase()  # packages that `pip install --user` put into the real home
    environment["HOME"] = home = tempfile.mkdtemp(prefix="home-")
    return Path(home)


def empty(home: Path) -> None:
    """Remove what a test left in the home of its worker."""
    for path in home.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


HOME = isolate()
"""Made when this module is first imported: before the product is, and once, though tests import `conftest` again."""
