"""Completion of `rkllm-chat` in a shell: commands, options, servers, tools, models and sessions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.flag_rows import object_of
from cli.mcp_tool.stage import Stage
from fork_server import run
from rkllm_chat.storage.session_files import SessionDirectory
from stage import PROGRAM, Run

ROWS: list[tuple[list[str], list[str]]] = [
    (["doc"], ["doctor"]),
    (["list-s"], []),  # a former word
    (["--no-s"], ["--no-servers"]),
    (["--output-format", ""], ["text", "json", "stream-json", "prompt"]),
    (["--output-format=s"], ["--output-format=stream-json"]),
    (["--output-format", "=", "j"], ["json"]),
    (["--server", ""], ["box", "other", "board"]),
    (["--set", "gp"], ["gpu_layers="]),
    (["--set", "language=z"], ["language=zh"]),
    (["--set", "backend=rk"], ["backend=rkllm"]),
    (["--model", "tiny"], ["tiny-tools"]),
    (["-m", "tiny"], ["tiny-tools"]),
    (["-m", "./doctor", "doc"], ["doctor"]),
    (["doctor", "--output", "fix"], ["fix-script"]),
    (["doctor", "--fix"], []),
    (["doctor", "--root", ""], []),
    (["mcp", "trust", "o"], ["other"]),
    (["mcp", "trust", "box", "o"], ["other"]),
    (["mcp", "ge"], []),
    (["serve", "bo"], ["board"]),
    (["serve", "board", "--no-t"], ["--no-token"]),
    (["call-tool", ""], ["box.paint", "other.", "board."]),
    (["call-tool", "box.paint", ""], []),
    (["call-tool", "--server", "box", "--tool", ""], ["paint"]),
    (["--config", "mcp.json", "call-tool", "--sel"], ["--select"]),
    (["completion", ""], ["bash", "zsh", "fish"]),
]


@pytest.fixture
def known(folder: Path, environment: dict[str, str]) -> Stage:
    """Two servers; the tools of one of them are in the cache, one with a name that a shell would run."""
    stage = Stage(folder, environment)
    stage.add("box", [{"name": "paint", "inputSchema": object_of()}, {"name": "$(touch evil)"}])
    stage.run("box__paint")
    stage.add("other", [{"name": "tool"}])
    (stage.folder / "box.record").unlink()
    return stage


def complete(in_process: Run, *words: str) -> list[str]:
    return in_process("completion", "words", "--", *words).stdout.split()


def test_each_kind_of_word_is_completed_without_starting_a_server(known: Stage, in_process: Run) -> None:
    for words, expected in ROWS:
        assert complete(in_process, *words) == expected, words
    assert not known.was_started("box") and not known.was_started("other")


@pytest.mark.usefixtures("known")
def test_a_stored_session_is_completed(in_process: Run, shelf: SessionDirectory) -> None:
    name, file = shelf.create(1_700_000_000)
    os.close(file)
    assert complete(in_process, "--resume", name[:4]) == [name]


def test_names_are_completed_as_far_as_a_broken_configuration_allows(known: Stage, in_process: Run) -> None:
    (known.folder / "mcp.json").write_text("{", encoding="utf-8")
    assert complete(in_process, "--server", "") == []
    assert complete(in_process, "doc") == ["doctor"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_of_its_own(known: Stage, shell: str) -> None:
    done = run([*PROGRAM, "completion", shell], encoding="utf-8", env=known.environment, timeout=30)
    assert "rkllm-chat completion words -- " in done.stdout and "mcp" not in done.stdout


def test_bash_completes_by_the_script(known: Stage) -> None:
    programs = known.folder / "bin"
    programs.mkdir()
    program = programs / "rkllm-chat"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m rkllm_chat "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    script = """
        eval "$(rkllm-chat completion bash)"
        COMP_WORDS=(rkllm-chat call-tool box.); COMP_CWORD=2; _rkllm_chat; echo "${COMPREPLY[*]}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        capture_output=True,
        encoding="utf-8",
        env={**known.environment, "PATH": f"{programs}:{known.environment['PATH']}"},
        cwd=known.folder,
        timeout=30,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("box.paint\n", "")
    assert not Path(known.folder / "evil").exists()
