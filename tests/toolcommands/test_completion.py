"""Completion of tools, flags and values, in a real shell, from what servers said when they were last asked."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time

import pytest

from flag_rows import BOOLEAN, COLOUR, INTEGER, TEXT, list_of, object_of
from toolcommands.stage import Stage

PAINT = object_of(
    colour=COLOUR, dry=BOOLEAN, at=object_of(x=INTEGER), coats=list_of(COLOUR), note=TEXT, maxHeight={"enum": [1, 2]}
)
EVIL = {"enum": ["$(touch evil)", "a b", "`x`", "plain"]}


@pytest.fixture
def painted(stage: Stage) -> Stage:
    """Two servers, of which one was asked before."""
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
    (["--ou"], ["--output", "--output-dir"]),
    (["--output", ""], ["text", "json", "yaml", "table"]),
    (["--output=y"], ["--output=yaml"]),
    (["--config", ""], []),
    (["--output", "json", "box__e"], ["box__evil"]),
    (["box__paint", "--c"], ["--colour", "--coats"]),
    (["box.paint", "--d"], ["--dry"]),
    (["box/paint", "--no-"], ["--no-dry", "--no-check"]),
    (["box__paint", "--at."], ["--at.x"]),
    (["box__paint", "--colour", ""], ["red", "green", "blue"]),
    (["box__paint", "--colour", "b"], ["blue"]),
    (["box__paint", "--colour=g"], ["--colour=green"]),
    (["box__paint", "--colour", "="], ["red", "green", "blue"]),
    (["box__paint", "--colour", "=", "r"], ["red"]),
    (["box__paint", "--coats", "red", "--coats", "g"], ["green"]),
    (["box__paint", "--max-height", ""], ["1", "2"]),
    (["box__paint", "--note", ""], []),
    (["box__paint", "--output", "t"], ["text", "table"]),
    (["box__paint", "--dry", "--at"], ["--at", "--at.x"]),
    (["box__evil", "--x", ""], ["plain"]),
    (["none__tool", "--"], []),
    (["other__tool", "--"], []),
]


@pytest.mark.parametrize(("words", "wanted"), ROWS, ids=lambda value: " ".join(value))
def test_what_a_word_may_become(words: list[str], wanted: list[str], painted: Stage) -> None:
    assert painted.run("completion", "words", "--", *words).stdout.split() == wanted
    assert not painted.was_started("box") and not painted.was_started("other")


def test_our_options_are_offered_behind_the_tool(painted: Stage) -> None:
    assert painted.run("completion", "words", "--", "box__evil", "--").stdout.split() == ["--x", *OURS]


def test_a_changed_entry_and_a_changed_tool_are_completed_anew(painted: Stage) -> None:
    painted.configure("box", {**painted.servers["box"], "cwd": "."})
    assert painted.run("completion", "words", "--", "box__").stdout.split() == ["box__"]
    painted.add("box", [{"name": "newer"}])
    painted.run("box__newer")
    assert painted.run("completion", "words", "--", "box__").stdout.split() == ["box__newer"]


def test_what_is_kept_is_not_called_after_a_secret(painted: Stage) -> None:
    for token in ("one", "two"):
        painted.configure("box", {**painted.servers["box"], "env": {"TOKEN": token}})
        painted.run("box__paint")
    kept = list((painted.folder.parent / "home/.cache/rkllm-chat/tools").iterdir())
    assert len(kept) == 2  # with TOKEN, and without as it was before


def test_what_is_kept_decides_nothing_that_is_sent(painted: Stage) -> None:
    painted.add("box", [{"name": "paint", "inputSchema": object_of(colour=INTEGER)}])
    painted.run("box__paint", "--colour", "5")
    assert painted.calls() == ['{"colour": 5}']


def test_a_damaged_file_of_kept_tools_does_no_harm(painted: Stage) -> None:
    (kept,) = (painted.folder.parent / "home/.cache/rkllm-chat/tools").iterdir()
    kept.write_text('{"name": [', encoding="utf-8")
    assert painted.run("completion", "words", "--", "box__").stdout.split() == ["box__"]
    painted.run("box__paint")
    assert painted.run("completion", "words", "--", "box__").stdout.split() == ["box__paint", "box__evil"]


def test_a_home_that_cannot_be_written_does_no_harm(painted: Stage) -> None:
    painted.environment["XDG_CACHE_HOME"] = "/proc/none"
    assert painted.run("box__paint").stdout == "recorded\n"


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["mcp-tool", "box__p"], "box__paint"),
        (["mcp-tool", "box__paint", "--colour", ""], "red,green,blue"),
        (["mcp-tool", "box__paint", "--colour", "=", "gr"], "green"),
        (["mcp-tool", "box__paint", "--note", ""], ""),
    ],
)
def test_the_script_for_bash_completes(words: list[str], wanted: str, painted: Stage) -> None:
    given = " ".join(f"'{word}'" for word in words)
    line = f"""eval "$(mcp-tool completion bash)"; COMP_WORDS=({given}); COMP_CWORD={len(words) - 1}
        _mcp_tool; IFS=,; echo "${{COMPREPLY[*]}}" """
    done = painted.shell(line)
    assert (done.stdout, done.stderr) == (f"{wanted}\n", "")


def test_the_tab_key_completes_in_bash(painted: Stage) -> None:
    painted.shell("true")
    environment = {**painted.environment, "PATH": f"{painted.folder}/bin:{painted.environment['PATH']}", "PS1": "> "}
    ours, theirs = pty.openpty()
    command = ["bash", "--norc", "--noprofile", "-i"]
    shell = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=painted.folder, start_new_session=True
    )
    os.close(theirs)
    os.write(ours, b"eval \"$(mcp-tool completion bash)\"; echo re''ady\n")
    read_until(ours, b"\rready\r\n")
    os.write(ours, b"mcp-tool box__pa\t--colour=gr\t\n")
    said = read_until(ours, b"recorded")
    shell.kill()
    shell.wait(timeout=5)
    os.close(ours)
    assert b"mcp-tool box__paint --colour=green" in said
    assert painted.calls() == ['{"colour": "green"}']


def read_until(terminal: int, text: bytes) -> bytes:
    """What a terminal shows until that text, within ten seconds."""
    said, end = b"", time.monotonic() + 10
    while text not in said:
        ready, _, _ = select.select([terminal], [], [], max(0.0, end - time.monotonic()))
        assert ready, said
        said += os.read(terminal, 65536)
    return said


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(shell: str, stage: Stage) -> None:
    script = stage.run("completion", shell).stdout
    assert "mcp-tool completion words -- " in script
    if shell == "bash":
        (stage.folder / "script").write_text(script, encoding="utf-8")
        assert stage.shell("bash -n script").stderr == ""


def test_an_unknown_shell_is_told(stage: Stage) -> None:
    (line,) = stage.refuse("completion", "tcsh", code=2)
    assert line == "mcp-tool: mcp-tool completion: which shell? Write bash, zsh, fish."
