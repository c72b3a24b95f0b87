"""Invalid command lines and prompts: one message on standard error, an exit code, no traceback."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import fork_server
from stage import PROGRAM, Run, Screen, Script

MB = 1 << 20
ALONE = ("--no-servers",)


def start(
    environment: dict[str, str], folder: Path, *arguments: str | bytes, stdin: bytes = b""
) -> tuple[int, str, str]:
    """Exit code and both outputs of the program; arguments and standard input may be bytes."""
    command = [*PROGRAM, *map(os.fsdecode, arguments)]
    done = fork_server.run(command, input=stdin, env=environment, cwd=folder)
    assert b"Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--modle", "x"], "unrecognized arguments: --modle. Did you mean --model?"),
        (["--modle=x", "--contxt=1"], "Did you mean --model or --context?"),
        (["--zz\x1b]0;owned\x07"], "unrecognized arguments: --zz\\x1b]0;owned\\x07\n"),
        (["--", "-p", "hi"], "unrecognized arguments: hi\n"),
        (["-p", "x", "--max-tokens", "1e9"], "rkllm-chat: --max-tokens must be a whole number"),
        (["-p", "x", "--theme", "x"], 'rkllm-chat: --theme is "x". Allowed: auto,'),
        (["-p", "x", "--json-schema", '{"type": "objec"}'], "--json-schema is invalid: type: 'objec' is no type"),
        (["-p"], "argument -p/--prompt: it needs a value: -p TEXT\n"),
        (["-p", "x", "--allow"], "it needs a value: --allow PATTERN\n"),
        (["sessions", "nosuch"], "rkllm-chat sessions: argument ACTION: invalid choice: 'nosuch'"),
        (["--resume"], "The prompt is empty: standard input is no terminal"),
        (["-p", "x", "--max-tokens", "0"], "1 to 1000000"),
        (["-p", "x", "--context", "1" * 5000], "--context must be"),
        (["-p", "x", "--temperature", "-1"], "must be from 0"),
        (["-p", "x", "--language", "xx"], '"xx"'),
        (["-p", "x", "--log-file", "/no/such/folder/log"], "cannot be written"),
        (["-p", " \n\t"], "prompt is empty"),
        (["serve", "toaster"], 'There is no server "toaster". Known servers: openai, board,'),
        (["serve", "boards"], "Did you mean board?"),
        (["serve"], "Names: openai, board,"),
        (["serve", "openai", "--port", "abc"], '"abc" is no port: a number from 0 to 65535'),
        (["serve", "board", "--folder", "/no/such/folder"], "/no/such/folder"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_an_invalid_command_line_is_rejected_before_a_server_is_started(
    arguments: list[str], part: str, in_process: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "mcp_config.toml").write_text(
        '[[servers]]\nname = "mark"\ncommand = "touch"\nargs = ["started"]\n', encoding="utf-8"
    )
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    done = in_process(*arguments, code=2)
    assert done.stdout == ""
    assert part in done.stderr and "\x1b" not in done.stderr
    assert not (folder / "started").exists()


def make_models(folder: Path) -> None:
    """Files that are not models, each for another reason."""
    for ending in ("gguf", "rkllm"):
        (folder / f"empty.{ending}").touch()
        (folder / f"folder.{ending}").mkdir()
    (folder / "loop.gguf").symlink_to("loop.gguf")
    (folder / "junk.gguf").write_bytes(bytes(range(256)) * 20)
    (folder / "lies.gguf").write_bytes(b"GGUF\x03\0\0\0" + b"\xff" * 64)
    (folder / "junk.json").write_bytes(b"\xff\xfe{")


@pytest.mark.parametrize(
    ("model", "part"),
    [
        ("missing.gguf", "missing.gguf: No such file"),
        ("loop.gguf", "loop.gguf: Too many levels"),
        ("~nosuchuser/x.gguf", "~nosuchuser/x.gguf: No such file"),
        ("junk.gguf", "junk.gguf: not a GGUF file (it begins with '\\x00\\x01\\x02\\x03')"),
        ("lies.gguf", "lies.gguf"),
        ("folder.rkllm", "folder.rkllm: Is a directory"),
        ("empty.rkllm", "empty.rkllm: the file is empty"),
        ("junk.json", "junk.json"),
        ("/dev/null/x.gguf", "/dev/null/x.gguf: Not a directory"),
        ("a\x1b]0;owned\x07.gguf", "a\\x1b]0;owned\\x07.gguf: No such file"),
    ],
)
def test_a_file_that_is_not_a_model_is_rejected_in_one_line(
    model: str, part: str, in_process: Run, folder: Path
) -> None:
    make_models(folder)
    done = in_process("-p", "hi", "--model", model, *ALONE, code=5)
    assert done.stdout == ""
    assert part in done.stderr and done.stderr.count("\n") == 1 and "\x1b" not in done.stderr


@pytest.mark.parametrize("source", ["-p", "-"])
def test_bytes_of_a_prompt_that_are_not_utf_8_are_replaced_with_a_notice(
    source: str, script: Script, environment: dict[str, str], folder: Path
) -> None:
    line: list[str | bytes] = ["-p", b"caf\xe9 \xf0\x9f"] if source == "-p" else ["-p", "-"]
    model = ["--model", script("Hello."), *ALONE, "--continue"]
    code, output, errors = start(environment, folder, *line, *model, stdin=b"caf\xe9 \xf0\x9f")
    assert (code, output) == (0, "Hello.\n")
    assert "UTF-8" in errors
    (session,) = (Path(environment["HOME"]) / ".local/state/rkllm-chat/sessions").glob("*.jsonl")
    assert "caf\ufffd \ufffd" in session.read_text("utf-8")
    assert start(environment, folder, "-p", "-", *model[:-1], stdin=" caf\u00e9 \ufffd\n".encode())[2] == ""


@pytest.mark.model
def test_a_prompt_that_cannot_fit_is_rejected_by_its_length(environment: dict[str, str], folder: Path) -> None:
    code, output, errors = start(environment, folder, "-p", "-", *ALONE, stdin=b"word " * (2 * MB))
    assert (code, output) == (1, "")
    assert f"{10 * MB - 1} characters" in errors and "2048 tokens" in errors


def test_an_endless_prompt_is_read_up_to_its_limit(environment: dict[str, str]) -> None:
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
        done = fork_server.run([*PROGRAM, "-p", "-", *ALONE], stdin=endless.stdout, text=True, env=environment)
        assert endless.stdout
        endless.stdout.close()
        endless.kill()
    assert (done.returncode, done.stdout) == (2, "")
    assert "16 MB" in done.stderr


@pytest.mark.parametrize("columns", ["0", "x", "9" * 30])
def test_an_invalid_size_of_the_terminal_is_ignored(
    columns: str, open_screen: Callable[..., Screen], script: Script
) -> None:
    screen = open_screen("--model", script("Hello."), *ALONE, COLUMNS=columns, LINES=columns)
    screen.wait_for_prompt()
    screen.type("hi\r")
    screen.wait_for("◆ Hello.")
    screen.type("\x04")
    assert screen.wait_for_end() == 0


@pytest.mark.parametrize("home", [None, "/proc/no/such/home"], ids=["unset", "not writable"])
def test_without_a_home_the_chat_opens_with_one_notice(
    home: str | None, environment: dict[str, str], folder: Path, script: Script, tmp_path: Path
) -> None:
    variables = {**environment, "TMPDIR": str(tmp_path)}
    variables.pop("HOME")
    model = script("Hello.", "Hello again.")
    screen = Screen(["--model", model, *ALONE], {**variables, **({"HOME": home} if home else {})}, folder)
    try:
        screen.wait_for_prompt()
        for line, answer in (("hi", "◆ Hello."), ("again", "◆ Hello again.")):
            screen.type(f"{line}\r")
            screen.wait_for(answer)
            screen.wait_for_prompt()
        notices = [line for line in screen.lines() if "cannot be saved" in line]
        assert len(notices) == (1 if home else 0)
        screen.type("\x04")
        assert screen.wait_for_end() == 0
    finally:
        screen.close()
