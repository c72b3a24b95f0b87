"""`rkllm-chat new-server DEST`: the project works, and files that exist are not changed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from mcp_types import TextContent, TextResourceContents

from rkllm_chat.config.settings import ServerConfig, read_toml
from rkllm_chat.mcp_client.toolbox import Toolbox
from stage import Run

LIMIT_S = 30.0
BOARD = '[[servers]]\nname = "board"\ncommand = "rkllm-chat"\nargs = ["serve", "board"]\n'


def run_its_test(folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(
        command, capture_output=True, encoding="utf-8", env=environment, cwd=folder, timeout=LIMIT_S, check=False
    )


@pytest.mark.slow
def test_the_test_of_a_new_server_passes_and_fails_after_a_change(
    program: Run, folder: Path, environment: dict[str, str]
) -> None:
    program("new-server", "harbour")
    assert sorted(path.name for path in (folder / "harbour").iterdir()) == [
        "pyproject.toml",
        "server.py",
        "test_server.py",
    ]
    done = run_its_test(folder / "harbour", environment)
    assert (done.returncode, done.stdout.splitlines()[-1].partition(" in ")[0]) == (0, "3 passed"), done.stdout
    server = folder / "harbour/server.py"
    text = server.read_text(encoding="utf-8")
    for right, wrong in (("word.lower()", "word"), ('"shopping"', '"washing"'), ("{day}", "a day")):
        text = text.replace(right, wrong, 1)
    server.write_text(text, encoding="utf-8")
    done = run_its_test(folder / "harbour", environment)
    assert (done.returncode, done.stdout.splitlines()[-1].partition(" in ")[0]) == (1, "3 failed"), done.stdout


@pytest.mark.slow
def test_a_new_server_is_reached_by_its_printed_entry(program: Run, tmp_path: Path) -> None:
    done = program("new-server", "harbour")
    assert "harbour" in done.stderr and "mcp_config.toml" in done.stderr
    (server,) = read_toml(done.stdout, "", {}).servers
    assert server.name == "harbour"

    async def go() -> tuple[str, list[str], str, str]:
        async with Toolbox([server], tmp_path / "logs") as toolbox:
            assert not toolbox.failures
            tool = next(tool for tool in toolbox.tools if tool.name == "find_notes")
            found = await toolbox.call(tool, {"word": "ladder"}, lambda *_: None)
            uris = [resource.uri for _, resource in await toolbox.list_resources()]
            (notes,) = (await toolbox.read_resource("notes://all")).contents
            (message,) = (await toolbox.get_prompt("harbour", "plan_day", {"day": "Sunday"})).messages
            assert isinstance(notes, TextResourceContents) and isinstance(message.content, TextContent)
            return found.text, uris, notes.text.splitlines()[0], message.content.text

    assert asyncio.run(asyncio.wait_for(go(), LIMIT_S)) == (
        "garden: Water the tomatoes on Monday. Ask Ida for a ladder.",
        ["notes://all"],
        "shopping: Bread, tea, a new lamp for the hall.",
        "Look through my notes and tell me what to do on Sunday.",
    )


@pytest.mark.parametrize(
    "before",
    [
        None,
        BOARD.rstrip("\n"),
        "\ufeff" + BOARD.replace("\n", "\r\n"),
        '# mine\n[chat]\nsystem = """\n[[servers]]\n"""  # the end',
    ],
    ids=["no file", "no newline at the end", "BOM and CR LF", "another table"],
)
def test_add_appends_the_server(before: str | None, program: Run, folder: Path) -> None:
    path = folder / "mcp_config.toml"
    if before is not None:
        path.write_bytes(before.encode())
    done = program("new-server", "harbour", "--add")
    assert done.stdout == "" and "mcp_config.toml" in done.stderr
    after = path.read_bytes().decode()
    assert after.startswith(before or "")
    old = read_toml((before or "").removeprefix("\ufeff"), "", {})
    new = read_toml(after.removeprefix("\ufeff"), "", {})
    harbour = ServerConfig("harbour", command=sys.executable, args=(str(folder.resolve() / "harbour/server.py"),))
    assert (new.servers[: len(old.servers) + 1], new.system) == ((*old.servers, harbour), old.system)
    assert [server.name for server in new.servers if server.name not in ("harbour", "board")] == []


@pytest.mark.parametrize(
    ("before", "cause"),
    [
        (BOARD.replace("board", "harbour", 1), '"harbour" already'),
        ("[chat", "not valid TOML"),
        ('servers = [{ name = "a", command = "b" }]', "not valid TOML"),
        ("\udcff", "not UTF-8"),
    ],
    ids=["same name", "invalid TOML", "an array", "no text"],
)
def test_where_a_server_cannot_be_added_nothing_changes(before: str, cause: str, program: Run, folder: Path) -> None:
    path = folder / "mcp_config.toml"
    path.write_bytes(before.encode(errors="surrogateescape"))
    done = program("new-server", "harbour", "--add", code=3)
    assert cause in done.stderr and done.stdout == "" and "Traceback" not in done.stderr
    assert path.read_bytes() == before.encode(errors="surrogateescape")
    assert [entry.name for entry in folder.iterdir()] == ["mcp_config.toml"]


@pytest.mark.parametrize(
    ("dest", "cause"),
    [
        ("full", "not empty"),
        ("full/kept.txt", "File exists"),
        ("full/kept.txt/deeper", "Not a directory"),
        ("dunes-${HOME}", "configuration"),
    ],
)
def test_an_unsuitable_folder_is_rejected(dest: str, cause: str, program: Run, folder: Path) -> None:
    (folder / "full").mkdir()
    (folder / "full/kept.txt").write_text("kept", encoding="utf-8")
    done = program("new-server", dest, code=2)
    assert cause in done.stderr and done.stdout == "" and "Traceback" not in done.stderr
    assert [str(path.relative_to(folder)) for path in folder.rglob("*")] == ["full", "full/kept.txt"]


@pytest.mark.parametrize(
    ("dest", "name"),
    [
        ("my server", "my-server"),
        ("deep/er/tide__table", "tide_table"),
        ('odd "one"\\n', "odd-one-n"),
        ("x" * 40, f"{'x' * 23}-c41a71f0"),
        ("港", "港"),
    ],
)
def test_the_server_is_named_after_its_folder(dest: str, name: str, program: Run, folder: Path) -> None:
    (server,) = read_toml(program("new-server", dest).stdout, "", {}).servers
    assert (server.name, server.args) == (name, (str(folder.resolve() / dest / "server.py"),))
    assert f'MCPServer("{name}",' in (folder / dest / "server.py").read_text(encoding="utf-8")
