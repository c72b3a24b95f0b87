"""The home of a test is nobody's: neither that of whoever runs the tests nor what another test left."""

from __future__ import annotations

import os
import pwd
from importlib import import_module
from pathlib import Path

import pytest

from isolated_user import HOME, isolate


@pytest.mark.parametrize("another", ["before", "after"])
def test_the_home_is_empty_whatever_the_user_and_another_test_left(another: str) -> None:
    home = Path.home()
    assert (list(home.iterdir()), home == Path(pwd.getpwuid(os.getuid()).pw_dir)) == ([], False)
    (home / ".local/state/rkllm-chat").mkdir(parents=True)
    (home / ".mcp.json").write_text(another, encoding="utf-8")


def test_what_the_user_set_for_the_program_is_unset() -> None:
    names = ("HOME", "XDG_STATE_HOME", "RKLLM_CHAT_CONFIG", "https_proxy", "RKLLM_CHAT_FUZZ", "PATH")
    environment = dict.fromkeys(names, "/mine")
    home = isolate(environment)
    home.rmdir()
    assert environment.pop("HOME") == str(home)
    assert [name for name, value in environment.items() if value == "/mine"] == ["RKLLM_CHAT_FUZZ", "PATH"]


def test_importing_the_fixtures_changes_no_environment() -> None:
    before = dict(os.environ)
    assert import_module("conftest").HOME == HOME
    assert dict(os.environ) == before
