"""`mcp-tool` and `rkllm-chat call-tool` send exactly the given arguments, and print the result in each format."""

from __future__ import annotations

import json
import os
import pty
from pathlib import Path
from typing import Any

import pytest

import fork_server
from cli.flag_rows import (
    BOX,
    CIRCLE,
    COLOUR,
    INTEGER,
    POINT,
    REJECTED,
    ROWS,
    TEXT,
    Rejected,
    Row,
    list_of,
    object_of,
)
from cli.mcp_tool.conftest import ECHO
from cli.mcp_tool.stage import COMMAND, Stage
from mcp_client.chaos_http import open_site
from rkllm_chat.cli.mcp_tool.output_formats import FORMATTERS
from stage import PROGRAM

NAMES = ("large whole number", "dots over JSON", "our options as names")


@pytest.mark.parametrize("row", [row for row in ROWS if row.name in NAMES], ids=lambda row: row.name)
def test_both_commands_send_exactly_the_same_arguments(row: Row, stage: Stage) -> None:
    """What the words of each kind mean is tested in test_flags.py."""
    stage.add("box", [{"name": "tool", "inputSchema": row.schema}])
    stage.run("box__tool", *row.words)
    stage.run("--json", json.dumps(row.arguments), "box__tool")
    assert call_tool(stage, "box.tool", row.arguments)["ok"]
    assert stage.calls() == [json.dumps(row.arguments)] * 3


@pytest.mark.parametrize("row", REJECTED[::9], ids=lambda row: " ".join(row.words) or "nothing")
def test_arguments_that_do_not_fit_are_rejected_and_not_sent(row: Rejected, stage: Stage) -> None:
    stage.add("box", [{"name": "tool", "inputSchema": row.schema}])
    lines = stage.refuse("box__tool", *row.words, code=2)
    assert all(line.startswith("mcp-tool: ") for line in lines)
    assert [text for text in row.named if text not in " ".join(lines)] == []
    assert stage.was_started("box") and stage.calls() == []


MISFITS: list[tuple[dict[str, Any], Any, dict[str, Any]]] = [
    (INTEGER | {"minimum": 1}, 0, {"path": "x", "expected": "integer", "got": 0}),
    (COLOUR, "gren", {"path": "x", "expected": ["red", "green", "blue"], "got": "gren"}),
    (POINT, {"y": 1}, {"path": "x.x", "expected": "integer"}),
    (list_of(TEXT), ["a", 1], {"path": "x.1", "expected": "string", "got": 1}),
    ({"oneOf": [CIRCLE, BOX]}, {"kind": "box"}, {"path": "x.width", "expected": "integer"}),
    (object_of(a=TEXT) | {"additionalProperties": False}, {"b": 1}, {"path": "x.b", "expected": ["a"], "got": 1}),
]


def test_call_tool_rejects_arguments_by_the_same_rules(stage: Stage) -> None:
    tools = [{"name": f"tool{i}", "inputSchema": object_of(x=schema)} for i, (schema, _, _) in enumerate(MISFITS)]
    stage.add("box", tools)
    for i, (_, value, details) in enumerate(MISFITS):
        error = call_tool(stage, f"box.tool{i}", {"x": value})["error"]
        error["details"].pop("hint")
        assert (error["type"], error["details"]) == ("ValidationError", details)
        assert f'"{details["path"]}"' in error["message"]
    assert stage.calls() == []


def call_tool(stage: Stage, tool: str, arguments: Any) -> dict[str, Any]:
    """The document of `rkllm-chat call-tool`."""
    command = [*PROGRAM, "call-tool", tool, "--args", json.dumps(arguments)]
    done = fork_server.run(command, env=stage.environment, cwd=stage.folder, encoding="utf-8")
    document: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (int(not document["ok"]), "")
    return document


@pytest.mark.slow
def test_a_pattern_that_backtracks_for_ever_is_given_up(stage: Stage) -> None:
    stage.add("box", [{"name": "tool", "inputSchema": object_of(x=TEXT | {"pattern": "^(a+)+$"})}])
    text = "a" * 60 + "b"
    (line,) = stage.refuse("box__tool", "--x", text, code=7)
    assert "2 s" in line and "JSON" in line
    assert call_tool(stage, "box.tool", {"x": text})["error"]["type"] == "TimeoutError"
    assert stage.calls() == []


def test_the_longest_server_name_wins_and_only_that_server_is_started(stage: Stage) -> None:
    for server in ("git", "git_hub", "git-hub", "git.lab"):
        stage.add(server, [ECHO, {**ECHO, "name": "b__c"}, {**ECHO, "name": "d.e/f"}])
    stage.run("git_hub__echo")
    assert not stage.was_started("git") and not stage.was_started("git-hub")
    stage.run("git__b__c")
    stage.run("git/echo")
    stage.run("git-hub.d.e/f")
    stage.run("git.lab.echo")
    called = {name: [entry["name"] for entry in stage.record(name) if "name" in entry] for name in stage.servers}
    assert called == {"git": ["b__c", "echo"], "git_hub": ["echo"], "git-hub": ["d.e/f"], "git.lab": ["echo"]}


def test_text_is_the_text_of_the_result_and_nothing_else(box: Stage) -> None:
    text = json.dumps({"text": "two\nlines \x1b[31m 東京\n"})
    done = box.run("--json", text, "box__say")
    assert (done.stdout, done.stderr) == ("two\nlines \x1b[31m 東京\n", "")
    assert box.run("box__nothing").stdout == ""


def test_json_is_one_document_with_the_result_as_the_server_wrote_it(box: Stage) -> None:
    done = box.run("--output", "json", "box__echo", "--x", "東京")
    assert "東京" in done.stdout and done.stderr == ""
    assert json.loads(done.stdout) == {
        "ok": True,
        "result": {"content": [{"type": "text", "text": "recorded"}], "structuredContent": {"x": "東京"}},
    }


def test_images_and_other_data_are_written_to_files_and_named(box: Stage) -> None:
    lines = box.run("box__picture").stdout.splitlines()
    path = Path(lines[1].partition(": ")[2].rstrip("]"))
    assert lines[0] == "here" and lines[1].startswith("[image/png, 68 bytes: ")
    assert path.read_bytes()[:4] == b"\x89PNG" and path.parent.stat().st_mode & 0o077 == 0
    assert lines[3] == "[resource_link: https://example.org/a]"
    for left in path.parent.iterdir():
        left.unlink()
    path.parent.rmdir()
    content = json.loads(box.run("--output", "json", "--output-dir", "out", "box__picture").stdout)["result"]["content"]
    assert Path(content[1]["path"]) == box.folder / "out/picture-1.png" and content[1]["bytes"] == 68
    assert (box.folder / content[2]["resource"]["path"]).read_bytes() == b"\0\1\2"
    content = json.loads(box.run("--output", "json", "box__picture").stdout)["result"]["content"]
    assert content[1]["data"].startswith("iVBOR")


@pytest.mark.parametrize(
    ("before", "behind", "stdin"),
    [
        (["--json", '{"x": "a", "n": 1}'], ["--n", "2"], ""),
        ([], ["--json-file", "all.json", "--n=2"], ""),
        ([], ["--n", "2", "--json-file=-"], '{"x": "a"}'),
        (["--json-stdin"], ["--n", "2"], '{"x": "a"}'),
        ([], ["--n", "2", "--x@=x.txt"], ""),
        ([], ["--n", "2", "--x@=-"], "a"),
    ],
)
def test_arguments_are_read_from_options_files_and_standard_input(
    before: list[str], behind: list[str], stdin: str, box: Stage
) -> None:
    (box.folder / "all.json").write_text('\ufeff{"x": "a"}', encoding="utf-8")
    (box.folder / "x.txt").write_text("a", encoding="utf-8")
    box.run(*before, "box__echo", *behind, stdin=stdin)
    assert [json.loads(call) for call in box.calls()] == [{"x": "a", "n": 2}]


def test_an_argument_may_be_larger_than_a_command_line(box: Stage) -> None:
    large = "東京\n" * 100_000
    box.run("box__echo", "--x@=-", stdin=large)
    assert [json.loads(call) for call in box.calls()] == [{"x": large}]
    (line,) = box.run("--json-stdin", "box__echo", stdin=" " * (17 << 20), code=2).stderr.splitlines()
    assert "16 MB" in line


def test_a_call_starts_one_server_and_sends_four_messages(box: Stage) -> None:
    box.run("box__echo", "--x", "1")
    methods = [entry["method"] for entry in box.record("box") if "method" in entry]
    assert methods == ["initialize", "notifications/initialized", "tools/list", "tools/call"]
    assert len(box.processes()) == 1


def test_verbose_shows_the_standard_error_of_each_server(box: Stage) -> None:
    assert box.run("--verbose", "box__echo").stderr == "starting up\n"
    assert box.run("--verbose", "--help").stderr == "box: starting up\n"
    assert box.run("--help").stderr == ""
    assert box.run("box__echo").stderr == ""


def test_a_server_at_a_url_is_called_too(stage: Stage) -> None:
    with open_site("ok") as site:
        stage.configure("web", {"url": site.url, "headers": {"Authorization": "${LOGIN}"}})
        stage.environment["LOGIN"] = "Bearer my-login"
        assert stage.run("web__echo", "--text", "007").stdout == "007\n"
        assert "web__echo" in stage.run("--help").stdout
    assert all("Bearer my-login" in request.headers.values() for request in site.requests)


def test_on_a_terminal_control_characters_of_a_result_are_escaped(box: Stage) -> None:
    terminal, its_end = pty.openpty()
    command = [*COMMAND, "--json", json.dumps({"text": "\x1b[31mred"}), "box__say"]
    fork_server.run(command, stdout=its_end, env=box.environment, cwd=box.folder)
    os.close(its_end)
    shown = os.read(terminal, 1000)
    os.close(terminal)
    assert shown == b"\\x1b[31mred\r\n"


def content(*texts: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text} for text in texts], **more}


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (content("a", "b"), "a\nb"),
        (content("a", structuredContent={"x": 1}), "a"),
        ({"structuredContent": {"x": "東"}}, '{\n  "x": "東"\n}'),
        ({"content": "broken"}, ""),
        ({"content": [5, {"type": "resource", "resource": {"text": "r"}}, {"type": "new"}]}, "r\n[new: not shown]"),
        ({"content": [{"type": "resource", "resource": 5}]}, "[resource: not shown]"),
    ],
)
def test_text_is_the_texts_and_the_structured_content_where_there_is_nothing_else(
    result: dict[str, Any], expected: str
) -> None:
    assert FORMATTERS["text"](result) == expected
