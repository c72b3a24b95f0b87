"""Servers that people use, each by what it is for: files, memory, time and git."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.mcp_client.toolbox import Toolbox
from stage import OpenScreen, Run, Script

from .servers import WAIT_S, RecordingFrontend, call, npm, pypi, read_data, with_toolbox

pytestmark = pytest.mark.real


def test_files_are_written_and_read_in_its_folder_alone(folder: Path, tmp_path: Path) -> None:
    async def write_and_read(toolbox: Toolbox) -> list[tuple[str, str, Any]]:
        results = [
            await call(toolbox, "write_file", path=str(folder / "note.txt"), content="Grüße aus 東京\n"),
            await call(toolbox, "read_text_file", path=str(folder / "note.txt")),
            await call(toolbox, "read_media_file", path=str(folder / "note.txt")),
            await call(toolbox, "read_text_file", path=str(tmp_path / "secret.txt")),
            await call(toolbox, "list_directory", path=str(folder)),
        ]
        # a text whose type the server does not know is a blob; what it is structured as is the server's
        assert [results[2].status, results[2].text, results[2].media] == ["completed", "Grüße aus 東京\n", ()]
        del results[2]
        return [(result.status, result.text, result.structured) for result in results]

    (tmp_path / "secret.txt").write_text("42", encoding="utf-8")
    written = f"Successfully wrote to {folder / 'note.txt'}"
    denied = f"Access denied - path outside allowed directories: {tmp_path / 'secret.txt'} not in {folder}"
    assert with_toolbox(npm("filesystem", str(folder)), tmp_path, RecordingFrontend(), write_and_read) == [
        ("completed", written, {"content": written}),
        ("completed", "Grüße aus 東京\n", {"content": "Grüße aus 東京\n"}),
        ("failed", denied, None),
        ("completed", "[FILE] note.txt", {"content": "[FILE] note.txt"}),
    ]
    assert (folder / "note.txt").read_text(encoding="utf-8") == "Grüße aus 東京\n"


def test_beside_the_bundled_server_each_missing_file_names_the_folder_it_was_looked_for_in(
    folder: Path, tmp_path: Path, program: Run, script: Script
) -> None:
    """A person with both expects a file of either; with one name in two folders, only that folder tells them apart."""
    (tmp_path / "files/notes").mkdir(parents=True)
    (tmp_path / "files/notes/shopping.txt").write_text("milk\n", encoding="utf-8")
    files = npm("filesystem", str(tmp_path / "files"))
    program("mcp", "add", "files", "--", "node", *files.args)

    def ask(tool: str, path: str) -> str:
        call = json.dumps({"name": tool, "arguments": {"path": path}})
        replies = script(f"<tool_call>{call}</tool_call>", *["So it is."] * 5)  # a failure is looked into
        return program("--set", "backend=scripted", "--model", replies, "--allow", "*", "-p", f"Read {path}").stderr

    assert f"failed: There is no 'notes/shopping.txt' in the folder {folder}." in ask(
        "board__read_file", "notes/shopping.txt"
    )
    assert f"{tmp_path}/files/lists" in ask("files__read_file", "lists/a.txt")
    assert "write one of files__read_file, board__read_file" in ask("read_file", "notes/shopping.txt")
    assert "Tool 'files__read_file' completed" in ask("files__read_file", "notes/shopping.txt")


def test_the_roots_of_the_client_replace_the_folders_it_was_started_with(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    config, before = npm("filesystem", str(folder)), f"Allowed directories:\n{folder}"

    async def ask(toolbox: Toolbox) -> str:
        return (await call(toolbox, "list_allowed_directories")).text

    async def ask_until_it_knows(toolbox: Toolbox) -> str:  # it asks for the roots in its own time
        while (text := await ask(toolbox)) == before:
            pass
        return text

    async def ask_soon(toolbox: Toolbox) -> str:
        return await asyncio.wait_for(ask_until_it_knows(toolbox), WAIT_S)

    assert with_toolbox(config, tmp_path, None, ask) == before
    told = with_toolbox(config, tmp_path, RecordingFrontend(roots=(tmp_path / "root",)), ask_soon)
    assert told == f"Allowed directories:\n{tmp_path / 'root'}"


@pytest.mark.slow
def test_the_chat_lets_it_write_the_folder_of_its_arguments(
    folder: Path, tmp_path: Path, script: Script, open_screen: OpenScreen
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    server = npm("filesystem", str(files))
    (folder / "own.toml").write_text(
        f"[[servers]]\nname = 'files'\ncommand = 'node'\nargs = {json.dumps(server.args)}\n", encoding="utf-8"
    )
    screen = open_screen("--model", script("Yes."), "--config", "own.toml", size=(200, 40))
    screen.wait_for("1/1 server", WAIT_S)
    screen.wait_for_prompt()
    screen.enter("/call list_allowed_directories", f"{files}")
    screen.enter(f"/call write_file path={files}/note.txt content=hello", "Successfully wrote to")
    assert (files / "note.txt").read_text(encoding="utf-8") == "hello"


@pytest.mark.slow
@pytest.mark.parametrize("sandbox", ["off", pytest.param("on", marks=pytest.mark.sandbox)])
def test_the_question_shows_what_it_will_replace(
    sandbox: str, folder: Path, tmp_path: Path, script: Script, open_screen: OpenScreen
) -> None:
    """It takes a relative path as one of its first folder; the sandbox closes that of the chat to it."""
    first, second = tmp_path / "first", tmp_path / "second"
    for file in (
        first / "todo.txt",
        first / "both.txt",
        second / "both.txt",
        second / "other.txt",
        folder / "here.txt",
    ):
        file.parent.mkdir(exist_ok=True)
        file.write_text("one\ntwo\n", encoding="utf-8")
    args = npm("filesystem", str(first), str(second)).args
    (folder / "own.toml").write_text(
        f"[[servers]]\nname = 'files'\ncommand = 'node'\nargs = {json.dumps(args)}\nsandbox = '{sandbox}'\n",
        encoding="utf-8",
    )
    questions = {
        "todo.txt": [f"content = change of {first / 'todo.txt'}: 1 added, 2 removed"],
        "both.txt": [f"! may replace {name / 'both.txt'}: the path is relative" for name in (first, second)],
        "other.txt": [f"! may replace {second / 'other.txt'}: the path is relative"],
        "here.txt": [f"! may replace {folder / 'here.txt'}: the path is relative"] if sandbox == "off" else [],
    }
    calls = [json.dumps({"name": "write_file", "arguments": {"path": name, "content": "new"}}) for name in questions]
    replies = [f"<tool_call>{call}</tool_call>" for call in calls]
    screen = open_screen("--model", script(*replies, "So."), "--config", "own.toml", size=(200, 60))
    screen.wait_for("1/1 server", WAIT_S)
    screen.wait_for_prompt()
    screen.type(f"write new into {', '.join(questions)}\r")
    for name, expected in questions.items():
        screen.wait_for_end_of_line("stop:")
        lines = screen.lines()
        start = max(row for row, line in enumerate(lines) if line == "files wants to run write_file")
        shown = [line.strip() for line in lines[start:] if "change of" in line or "may replace" in line]
        assert shown == expected
        screen.wait_for_rest(0.7)
        screen.say("y", f'completed] path="{name}"')
    screen.say("", "◆ So.")
    assert [(first / name).read_text(encoding="utf-8") for name in questions] == ["new"] * len(questions)
    kept = [second / "both.txt", second / "other.txt", folder / "here.txt"]
    assert {file.read_text(encoding="utf-8") for file in kept} == {"one\ntwo\n"}


def test_what_is_remembered_is_there_in_the_next_session_and_as_a_resource(tmp_path: Path) -> None:
    config = replace(npm("memory"), env={"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")})
    husum = {"name": "Husum", "entityType": "town", "observations": ["has a harbour"]}

    async def remember(toolbox: Toolbox) -> Any:
        return (await call(toolbox, "create_entities", entities=[husum])).structured

    async def recall(toolbox: Toolbox) -> tuple[Any, bool, bytes]:
        graph = (await call(toolbox, "read_graph")).structured
        ((server, resource),) = await toolbox.list_resources()
        data = await read_data(toolbox, resource.uri)
        return graph, (server, resource.title) == ("memory", "Knowledge Graph"), data

    assert with_toolbox(config, tmp_path, RecordingFrontend(), remember) == {"entities": [husum]}
    graph, is_known, data = with_toolbox(config, tmp_path, RecordingFrontend(), recall)
    assert (graph, is_known) == ({"entities": [husum], "relations": []}, True)
    assert b"has a harbour" in data


def test_a_time_is_converted_by_a_server_of_the_newer_protocol(tmp_path: Path) -> None:
    async def convert(toolbox: Toolbox) -> tuple[str, Any, tuple[str, str]]:
        noon = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
        wrong = await call(toolbox, "get_current_time", timezone="Nowhere/At_All")
        return (
            toolbox.connections["time"].lifecycle.protocol_version,
            read_clock((await call(toolbox, "convert_time", **noon)).structured),
            (wrong.status, wrong.text),
        )

    era, clock, wrong = with_toolbox(pypi("time", "--local-timezone", "UTC"), tmp_path, RecordingFrontend(), convert)
    assert (era, clock) == ("2026-07-28", ("12:00:00+00:00", "21:00:00+09:00", "+9.0h"))
    assert wrong[0] == "failed" and "Nowhere/At_All" in wrong[1]


def read_clock(answer: Mapping[str, Any]) -> tuple[str, str, str]:
    """Two times without their day, and what lies between."""
    source, target = (answer[end]["datetime"].partition("T")[2] for end in ("source", "target"))
    return source, target, answer["time_difference"]


def test_a_repository_is_changed_and_inspected(folder: Path, tmp_path: Path) -> None:
    for line in ("init -q -b main", "config user.name Ada", "config user.email ada@example.org"):
        subprocess.run(["git", *line.split()], cwd=folder, timeout=10, check=True)
    (folder / "note.txt").write_text("hello\n", encoding="utf-8")

    async def commit(toolbox: Toolbox) -> tuple[list[str], str]:
        here = {"repo_path": str(folder)}
        results = [
            await call(toolbox, "git_add", **here, files=["note.txt"]),
            await call(toolbox, "git_commit", **here, message="Say hello"),
            await call(toolbox, "git_status", **here),
        ]
        return [result.status for result in results], results[-1].text

    statuses, status = with_toolbox(pypi("git", "--repository", str(folder)), tmp_path, RecordingFrontend(), commit)
    assert statuses == ["completed"] * 3
    assert status == "Repository status:\nOn branch main\nnothing to commit, working tree clean"
    log = subprocess.run(["git", "log", "--format=%s"], cwd=folder, capture_output=True, text=True, check=True)
    assert log.stdout == "Say hello\n"
