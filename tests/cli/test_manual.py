"""The man page and the table of exit codes are made from the parsers and the errors, and are up to date."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rkllm_chat.cli.commands import COMMANDS, EXIT_CODES, RENAMED
from rkllm_chat.core.errors import ChatError

ROOT = Path(__file__).parents[2]


def list_errors(kind: type[ChatError]) -> list[type[ChatError]]:
    return [kind, *(found for subclass in kind.__subclasses__() for found in list_errors(subclass))]


@pytest.mark.slow
def test_the_generated_pages_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, ".ci/manual.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_what_is_not_translated_is_counted_for_each_language() -> None:
    command = [sys.executable, ".ci/translations", "--count"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=30, check=True).stdout
    assert re.fullmatch(r"(\w\w: \d+ texts are not translated\n)+", shown) and "\nzh: " in shown


def test_every_error_has_a_documented_exit_code() -> None:
    assert {kind.exit_code for kind in list_errors(ChatError)} <= set(EXIT_CODES)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("chat", *RENAMED)])
def test_every_command_is_in_the_man_page(name: str) -> None:
    page = (ROOT / "docs/rkllm-chat.1").read_text(encoding="utf-8").replace("\\-", "-")
    assert f"\n.SS {name}" in page


def test_the_page_of_the_settings_speaks_of_no_python() -> None:
    page = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    assert re.findall(r"\bNone\b|\bRow of\b|\b(?:[A-Z]{5,}S)\b", page) == []
    assert re.findall(r"\| \|$", page, flags=re.MULTILINE) == []
