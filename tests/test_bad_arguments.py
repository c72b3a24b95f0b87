"""Bad command lines, each with its outcome: one sentence on standard error, an exit code, and no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stage import PROGRAM, Screen

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Script = Callable[..., str]
MB = 1 << 20
ALONE = ("--no-servers",)


def start(
    environment: dict[str, str], folder: Path, *arguments: str | bytes, stdin: bytes = b""
) -> tuple[int, str, str]:
    """Exit code and both outputs of the program; arguments and standard input are bytes."""
    done = subprocess.run(
        [*PROGRAM, *arguments], input=stdin, capture_output=True, env=environment, cwd=folder, timeout=50, check=False
    )
    assert b"Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--modle", "x"], "unrecognized arguments: --modle x. Did you mean --model?"),
        (["--no-colour"], "unrecognized arguments: --no-colour. Did you mean --no-color?"),
        (["--modle=x", "--contxt=1"], "Did you mean --model or --context?"),
        (["--zzz"], "unrecognized arguments: --zzz\n"),
        (["--zz\x1b]0;owned\x07"], "unrecognized arguments: --zz\\x1b]0;owned\\x07\n"),
        (["--", "-p", "hi"], "unrecognized arguments: -- -p hi\n"),
        (["hello"], "unrecognized arguments: hello\n"),
        (["-p", "x", "--max-tokens", "1e9"], "argument --max-tokens: invalid positive value: '1e9'"),
        (["-p", "x", "--max-tokens", "1000000000"], "argument --max-tokens: must be from 1 to 1000000"),
        (["-p", "x", "--max-tokens", "0"], "argument --max-tokens: must be from 1 to 1000000"),
        (["-p", "x", "--context", "1" * 5000], "argument --context: invalid positive value"),
        (["-p", "x", "--max-steps", "٣x"], "argument --max-steps: invalid positive value"),
        (["-p", "x", "--seed", "abc"], "argument --seed: invalid int value: 'abc'"),
        (["-p", " \n\t"], "The prompt is empty."),
    ],
    ids=[
        *("near one", "near another", "near two", "near none", "steering", "behind two dashes", "no option"),
        *("tokens in powers", "tokens, too many", "tokens, none", "a number without end", "other digits", "a seed"),
        "a prompt of blanks",
    ],
)
def test_what_is_wrong_with_a_command_line_is_said_and_what_was_meant(
    arguments: list[str], said: str, environment: dict[str, str], folder: Path
) -> None:
    code, output, errors = start(environment, folder, *arguments)
    assert (code, output) == (2, "")
    assert said in errors and "\x1b" not in errors


def make_models(folder: Path) -> None:
    """Files that are no models, each in its way."""
    for ending in ("gguf", "rkllm"):
        (folder / f"empty.{ending}").touch()
        (folder / f"folder.{ending}").mkdir()
        (folder / f"loop.{ending}").symlink_to(f"loop.{ending}")
    (folder / "junk.gguf").write_bytes(bytes(range(256)) * 20)
    (folder / "cut.gguf").write_bytes(b"GGUF\x03\0\0\0")
    (folder / "lies.gguf").write_bytes(b"GGUF\x03\0\0\0" + b"\xff" * 64)
    (folder / "junk.json").write_bytes(b"\xff\xfe{")


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("missing.gguf", "missing.gguf: No such file or directory."),
        ("folder.gguf", "folder.gguf: Is a directory."),
        ("loop.gguf", "loop.gguf: Too many levels of symbolic links."),
        ("empty.gguf", "empty.gguf: the file is empty."),
        ("junk.gguf", "junk.gguf: not a GGUF file"),
        ("cut.gguf", "cut.gguf"),
        ("lies.gguf", "lies.gguf"),
        ("missing.rkllm", "missing.rkllm: No such file or directory."),
        ("folder.rkllm", "folder.rkllm: Is a directory."),
        ("empty.rkllm", "empty.rkllm: the file is empty."),
        ("junk.json", "junk.json"),
        ("/dev/null/x.gguf", "/dev/null/x.gguf: Not a directory."),
        ("a\x1b]0;owned\x07.gguf", "a\\x1b]0;owned\\x07.gguf: No such file or directory."),
    ],
)
def test_a_file_that_is_no_model_is_refused_in_one_line(
    model: str, said: str, environment: dict[str, str], folder: Path
) -> None:
    make_models(folder)
    code, output, errors = start(environment, folder, "-p", "hi", "--model", model, *ALONE)
    assert (code, output) == (5, "")
    assert said in errors and errors.count("\n") == 1 and "\x1b" not in errors


@pytest.mark.parametrize("door", ["-p", "-"])
def test_bytes_of_a_prompt_that_are_no_utf_8_are_replaced_and_told(
    door: str, script: Script, environment: dict[str, str], folder: Path
) -> None:
    line: list[str | bytes] = ["-p", b"caf\xe9 \xf0\x9f"] if door == "-p" else ["-p", "-"]
    model = ["--model", script("Hello."), *ALONE, "--continue"]
    code, output, errors = start(environment, folder, *line, *model, stdin=b"caf\xe9 \xf0\x9f")
    assert (code, output) == (0, "Hello.\n")
    assert "Bytes of the prompt that are not UTF-8 were replaced" in errors
    (session,) = (Path(environment["HOME"]) / ".local/state/rkllm-chat/sessions").glob("*.jsonl")
    assert "caf\ufffd \ufffd" in session.read_text("utf-8")


def test_a_whole_prompt_is_not_called_mended(program: Run, script: Script) -> None:
    model = ("--model", script("Hello."), *ALONE)
    assert program("-p", "-", *model, stdin=" caf\u00e9 \ufffd\n").stderr == ""


@pytest.mark.model
def test_a_prompt_that_cannot_fit_is_refused_by_its_length(environment: dict[str, str], folder: Path) -> None:
    code, output, errors = start(environment, folder, "-p", "-", *ALONE, stdin=b"word " * (2 * MB))
    assert (code, output) == (1, "")
    assert f"The message is {10 * MB - 1} characters long, the context holds 2048 tokens." in errors


def test_a_prompt_without_an_end_is_left_at_its_limit(environment: dict[str, str]) -> None:
    command = [*PROGRAM, "-p", "-", *ALONE]
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
        done = subprocess.run(
            command, stdin=endless.stdout, capture_output=True, text=True, env=environment, timeout=50, check=False
        )
        assert endless.stdout
        endless.stdout.close()
        endless.kill()
    assert (done.returncode, done.stdout) == (2, "")
    assert "The prompt is larger than 16 MB." in done.stderr


@pytest.mark.parametrize("columns", ["0", "-1", "1", "x", "9" * 30])
def test_a_size_that_the_environment_makes_up_breaks_nothing(
    columns: str, open_screen: Callable[..., Screen], script: Script
) -> None:
    screen = open_screen("--model", script("Hello."), *ALONE, COLUMNS=columns, LINES=columns)
    screen.wait_for_prompt()
    screen.type("hi\r")
    screen.wait_for("◆ Hello.")
    screen.type("\x04")
    assert screen.wait_for_end() == 0


@pytest.mark.parametrize("home", [None, "/proc/no/such/home"], ids=["unset", "not writable"])
def test_without_a_home_the_chat_opens_and_says_once_what_is_not_kept(
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
        told = [line for line in screen.lines() if "not saved" in line or "cannot be" in line]
        assert len(told) == (1 if home else 0)
        screen.type("\x04")
        assert screen.wait_for_end() == 0
    finally:
        screen.close()


@pytest.mark.parametrize("root", ["/", "."], ids=["this machine", "files of another"])
def test_root_is_told_what_that_means(root: str, environment: dict[str, str], folder: Path) -> None:
    _, output, _ = start(environment, folder, "doctor", "--json", "--root", root)
    users = [(line["state"], line["value"]) for line in json.loads(output)["result"]["lines"] if line["name"] == "user"]
    assert users == ([("look", "root")] if os.geteuid() == 0 and root == "/" else [])


def test_a_wrong_command_line_is_answered_before_anything_is_opened(environment: dict[str, str], folder: Path) -> None:
    (folder / "mcp_config.toml").write_text(
        '[[servers]]\nname = "mark"\ncommand = "touch"\nargs = ["started"]\n', encoding="utf-8"
    )
    begun = time.monotonic()
    code, _, _ = start(environment, folder, "-p", "hi", "--modle", "x")
    assert code == 2 and not (folder / "started").exists()
    assert time.monotonic() - begun < 20
