"""Completion of tools, flags and values in a shell, from the cached list of tools of each server."""

from __future__ import annotations

import os
import pty
import select
import time
from pathlib import Path
from typing import Any

import pytest

from cli.flag_rows import BOOLEAN, COLOUR, INTEGER, TEXT, list_of, object_of
from cli.mcp_tool.stage import Stage
from fork_server import start
from rkllm_chat.cli.mcp_tool.options import make_options
from rkllm_chat.cli.mcp_tool.shell_completion import complete_words
from stage import live_as

PAINT = object_of(
    colour=COLOUR, dry=BOOLEAN, at=object_of(x=INTEGER), coats=list_of(COLOUR), note=TEXT, maxHeight={"enum": [1, 2]}
)
EVIL = {"enum": ["$(touch evil)", "a b", "`x`", "plain"]}


@pytest.fixture
def painted(stage: Stage) -> Stage:
    """Two servers; the tools of one of them are in the cache."""
    tools = [{"name": "paint", "inputSchema": PAINT}, {"name": "evil", "inputSchema": object_of(x=EVIL)}]
    stage.add("box", tools)
    stage.run("box__paint")
    stage.add("other", [{"name": "tool"}])
    (stage.folder / "box.record").unlink()
    return stage


OURS = ["--help", "--output", "--output-dir", "--json", "--json-file", "--json-stdin", "--no-check", "--verbose"]
ROWS: list[tuple[list[str], list[str]]] = [
    ([""], ["box__paint", "box__evil", "other__", "completion"]),
    (["box__p"], ["box__paint"]),
    (["--output", ""], ["text", "json"]),
    (["--output=j"], ["--output=json"]),
    (["--config", ""], []),
    (["box__paint", "--c"], ["--colour", "--coats"]),
    (["box/paint", "--no-"], ["--no-dry", "--no-check"]),
    (["box__paint", "--colour", ""], ["red", "green", "blue"]),
    (["box__paint", "--colour=g"], ["--colour=green"]),
    (["box__paint", "--colour", "=", "r"], ["red"]),
    (["box__paint", "--coats", "red", "--coats", "g"], ["green"]),
    (["box__paint", "--max-height", ""], ["1", "2"]),
    (["box__paint", "--note", ""], []),
    (["box__paint", "--dry", "--at"], ["--at", "--at.x"]),
    (["box__evil", "--x", ""], ["plain"]),
    (["other__tool", "--"], []),
    (["box__evil", "--"], ["--x", *OURS]),
]


def cache_files(painted: Stage) -> list[Path]:
    return list((painted.folder.parent / "home/.cache/rkllm-chat/tools").iterdir())


def complete(painted: Stage, *words: str) -> list[str]:
    """Complete words in this process."""
    with live_as(painted.environment, painted.folder):
        return complete_words(["words", "--", *words], make_options()).split()


def test_each_kind_of_word_is_completed_without_starting_a_server(painted: Stage) -> None:
    for words, expected in ROWS:
        assert complete(painted, *words) == expected, words
    assert not painted.was_started("box") and not painted.was_started("other")


def test_a_changed_entry_or_tool_is_not_completed_from_the_cache(painted: Stage) -> None:
    painted.configure("box", {**painted.servers["box"], "cwd": "."})
    assert complete(painted, "box__") == ["box__"]
    painted.add("box", [{"name": "newer"}])
    painted.run("box__newer")
    assert complete(painted, "box__") == ["box__newer"]


def test_the_name_of_a_cache_file_does_not_depend_on_secrets(painted: Stage) -> None:
    for token in ("one", "two"):
        painted.configure("box", {**painted.servers["box"], "env": {"TOKEN": token}})
        painted.run("box__paint")
    assert len(cache_files(painted)) == 2  # with TOKEN, and without it


def test_arguments_are_checked_against_the_server_and_not_the_cache(painted: Stage) -> None:
    painted.add("box", [{"name": "paint", "inputSchema": object_of(colour=INTEGER)}])
    painted.run("box__paint", "--colour", "5")
    assert painted.calls() == ['{"colour": 5}']


def test_a_damaged_cache_file_is_replaced(painted: Stage) -> None:
    (cache_file,) = cache_files(painted)
    cache_file.write_text('{"name": [', encoding="utf-8")
    assert complete(painted, "box__") == ["box__"]
    painted.run("box__paint")
    assert complete(painted, "box__") == ["box__paint", "box__evil"]


def test_a_cache_folder_that_cannot_be_written_is_ignored(painted: Stage) -> None:
    painted.environment["XDG_CACHE_HOME"] = "/proc/none"
    assert painted.run("box__paint").stdout == "recorded\n"


def test_the_bash_script_completes(painted: Stage) -> None:
    lines = {"mcp-tool box__p": "box__paint", "mcp-tool box__paint --colour = gr": "green"}
    script = "\n".join(
        f"COMP_WORDS=({line}); COMP_CWORD={line.count(' ')}; _mcp_tool; echo ${{COMPREPLY[*]}}" for line in lines
    )
    done = painted.shell(f'eval "$(mcp-tool completion bash)"\n{script}')
    assert (done.stdout.splitlines(), done.stderr) == (list(lines.values()), "")


# How each shell is started without the files of a user, and its prompt is set.
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(mcp-tool completion bash)"'),
    "zsh": (["zsh", "-f", "-i"], 'eval "$(mcp-tool completion zsh)"'),
    "fish": (["fish", "--no-config", "-i"], "mcp-tool completion fish | source"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["bash", pytest.param("zsh", marks=pytest.mark.shells), pytest.param("fish", marks=pytest.mark.shells)]
)
def test_the_tab_key_completes(painted: Stage, name: str) -> None:
    painted.shell("true")
    environment = {**painted.environment, "PATH": f"{painted.folder}/bin:{painted.environment['PATH']}", "PS1": "> "}
    command, load = SHELLS[name]
    terminal, terminal_end = pty.openpty()
    streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), terminal_end)
    shell = start(command, owns_terminal=True, env=environment, cwd=painted.folder, **streams)
    os.close(terminal_end)
    os.write(terminal, f"{load}; echo re''ady\r".encode())
    read_until(terminal, b"ready\r\n")
    os.write(terminal, b"mcp-tool box__pa\t--colour=gr\t\r")
    read_until(terminal, b"recorded")
    shell.kill()
    shell.wait(timeout=5)
    os.close(terminal)
    assert painted.calls() == ['{"colour": "green"}']


def read_until(terminal: int, text: bytes) -> bytes:
    """Return what a terminal shows up to that text, within ten seconds."""
    output, end = b"", time.monotonic() + 10
    while text not in output:
        ready, _, _ = select.select([terminal], [], [], max(0.0, end - time.monotonic()))
        assert ready, output
        output += os.read(terminal, 65536)
    return output


def test_three_shells_have_a_script_and_others_are_rejected(stage: Stage) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "mcp-tool completion words -- " in stage.run("completion", shell).stdout
    (line,) = stage.refuse("completion", "tcsh", code=2)
    assert "bash, zsh, fish" in line
