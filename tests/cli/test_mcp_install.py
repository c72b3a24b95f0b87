"""`mcp add NAME --into PROGRAM`: a bundled server in the file of another program, whose other bytes stay."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from stage import Run, Screen

COMMAND = str(Path(sys.executable).with_name("rkllm-chat"))
CURSOR = ".cursor/mcp.json"
FILES = {  # its file, before, and after
    "claude": (".claude.json", '{"oauthAccount": {}}', '{"oauthAccount": {}, "mcpServers": {\n  NEW\n}}'),
    "cursor": (
        CURSOR,
        '{\r\n    "mcpServers": {\r\n        "a": {"command": "x"} // mine\r\n    }\r\n}',
        '{\r\n    "mcpServers": {\r\n        "a": {"command": "x"}, // mine\r\n        NEW\r\n    }\r\n}',
    ),
    "vscode": (
        ".config/Code/User/mcp.json",
        '// mine\n{\n  "servers": {},\n  "inputs": [], // mine, too\n}\n',
        '// mine\n{\n  "servers": {\n    NEW\n  },\n  "inputs": [], // mine, too\n}\n',
    ),
    "zed": (
        ".config/zed/settings.json",
        '{\n  /* mine */\n  "theme": "x",\n}\n',
        '{\n  /* mine */\n  "theme": "x",\n  "context_servers": {\n    NEW\n  },\n}\n',
    ),
}


def write(environment: dict[str, str], name: str, text: str) -> Path:
    path = Path(environment["HOME"], name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("into", FILES)
def test_a_server_is_shown_and_written_and_all_else_stays(
    into: str, in_process: Run, environment: dict[str, str]
) -> None:
    name, before, after = FILES[into]
    path = write(environment, name, before)
    path.chmod(0o640)
    install = ("mcp", "add", "board", "--into", into)
    options = ("--yes", "--", "--folder", "/srv")
    refused = in_process(*install, code=2)
    assert str(path) in refused.stdout and f'"command": "{COMMAND}"' in refused.stdout and "--yes" in refused.stderr
    assert path.read_bytes() == before.encode()

    assert str(path) in in_process(*install, *options).stdout
    written, (head, tail) = path.read_bytes().decode(), after.split("NEW")
    assert written.startswith(head) and written.endswith(tail)
    entry = json.loads("{" + written.removeprefix(head).removesuffix(tail) + "}")
    kind = {"type": "stdio"} if into == "vscode" else {}
    assert entry == {"board": {**kind, "command": COMMAND, "args": ["serve", "board", "--folder", "/srv"]}}
    assert path.stat().st_mode & 0o777 == 0o640

    assert "already" in in_process(*install, *options).stdout
    assert path.read_bytes().decode() == written
    assert f"board: {COMMAND} serve board --folder /srv [{path}]" in in_process("mcp", "discover").stdout


def test_an_entry_of_that_name_is_shown_and_replaced_after_a_question(
    environment: dict[str, str], folder: Path
) -> None:
    entry = {"command": "mine", "env": {"API_KEY": "sk-hidden-value-1"}}
    before = json.dumps({"mcpServers": {"llm": entry, "b": {"command": "x"}}}, indent=2)
    path = write(environment, CURSOR, before)
    for answer, code, expected in (("n", 1, entry), ("y", 0, {"command": COMMAND, "args": ["serve", "llm"]})):
        screen = Screen(["mcp", "add", "llm", "--into", "cursor"], environment, folder)
        try:
            screen.wait_for("It replaces: mine; sets API_KEY")
            screen.wait_for_end_of_line("Write it? [y/N]")
            screen.type(f"{answer}\r")
            assert screen.wait_for_end() == code
            assert b"hidden-value" not in screen.bytes
        finally:
            screen.close()
        expected_text = json.dumps({"mcpServers": {"llm": expected, "b": {"command": "x"}}}, indent=2)
        assert path.read_text(encoding="utf-8") == expected_text


UNTOUCHED = {
    "a comment in the entry": ('{"mcpServers": {"board": {"command": "x" /* why */}}}', "such as a comment"),
    "no object of servers": ('{"mcpServers": []}', "cannot be written into it"),
    "no object": ("[]", "cannot be written into it"),
    "no JSON": ("{mcpServers: {}", "not valid JSON"),
    "a name without quotes": ("{mcpServers: {}}", "cannot be written into it"),
    "a server's name without quotes": ('{"mcpServers": {a: {"command": "x"}}}', "cannot be written into it"),
    "a repeated key": ('{"mcpServers": {}, "mcpServers": {}}', "occurs twice"),
}


@pytest.mark.parametrize(("text", "message"), UNTOUCHED.values(), ids=UNTOUCHED)
def test_a_file_that_would_lose_something_is_not_touched(
    text: str, message: str, in_process: Run, environment: dict[str, str]
) -> None:
    path = write(environment, CURSOR, text)
    assert message in in_process("mcp", "install", "board", "--into", "cursor", "--yes", code=3).stderr
    assert path.read_text(encoding="utf-8") == text


def test_a_file_is_created_where_the_program_has_a_folder(in_process: Run, environment: dict[str, str]) -> None:
    install = ("mcp", "install", "board", "--into", "cursor", "--yes")
    assert "no folder for" in in_process(*install, code=2).stderr
    assert "no folder for" in in_process("mcp", "install", "board", "--into", "claude", "--yes", code=2).stderr
    path = Path(environment["HOME"], CURSOR)
    path.parent.mkdir()
    in_process(*install)
    assert json.loads(path.read_bytes()) == {"mcpServers": {"board": {"command": COMMAND, "args": ["serve", "board"]}}}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("board", "--into", "emacs"), "invalid choice"),
        (("nosuch", "--into", "zed"), "Known are board, claude, llm"),
        (("board",), "the server is missing"),
        (("board", "--into", "cursor", "--yes", "--", "--nosuch"), "unrecognized arguments: --nosuch"),
    ],
)
def test_a_wrong_command_line_writes_nothing(
    words: tuple[str, ...], message: str, in_process: Run, environment: dict[str, str]
) -> None:
    path = write(environment, CURSOR, "{}")
    assert message in in_process("mcp", "install", *words, code=2).stderr
    assert path.read_text(encoding="utf-8") == "{}"
