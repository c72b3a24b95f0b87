"""`mcp-tool` calls a tool with exactly the arguments that are meant, and shows what it says."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from flag_rows import REFUSED, ROWS, Refused, Row
from toolcommands.conftest import ECHO
from toolcommands.stage import COMMAND, Stage
from toolcommands.web import LOGIN, web_server


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_flags_and_json_arrive_as_exactly_the_arguments_that_are_meant(row: Row, stage: Stage) -> None:
    stage.add("box", [{"name": "tool", "inputSchema": row.schema}])
    stage.run("box__tool", *row.words)
    stage.run("--json", json.dumps(row.arguments), "box__tool")
    assert stage.calls() == [json.dumps(row.arguments)] * 2


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row.sentence)
def test_what_does_not_fit_is_told_and_never_sent(row: Refused, stage: Stage) -> None:
    stage.add("box", [{"name": "tool", "inputSchema": row.schema}])
    lines = stage.refuse("box__tool", *row.words, code=2)
    assert " ".join(line.removeprefix("mcp-tool: ") for line in lines) == row.sentence
    assert all(line.startswith("mcp-tool: ") for line in lines)
    assert stage.was_started("box") and stage.calls() == []


@pytest.mark.parametrize("mark", ["__", ".", "/"])
def test_a_tool_is_named_with_its_server_in_three_spellings(mark: str, box: Stage) -> None:
    assert box.run(f"box{mark}say", "--x", "1").stdout == "None\n"


def test_only_the_server_in_question_is_started(box: Stage) -> None:
    box.add("other", [ECHO])
    box.run("box__echo")
    assert box.was_started("box") and not box.was_started("other")
    box.run("other__echo")
    assert box.was_started("other")


def test_the_longest_server_name_wins_and_a_tool_may_hold_the_mark(stage: Stage) -> None:
    for server in ("git", "git_hub", "git-hub"):
        stage.add(server, [ECHO, {**ECHO, "name": "b__c"}, {**ECHO, "name": "d.e/f"}])
    stage.run("git_hub__echo")
    stage.run("git__b__c")
    stage.run("git-hub.d.e/f")
    called = {name: [entry["name"] for entry in stage.record(name) if "name" in entry] for name in stage.servers}
    assert called == {"git": ["b__c"], "git_hub": ["echo"], "git-hub": ["d.e/f"]}


def test_text_is_what_the_tool_says_and_nothing_else(box: Stage) -> None:
    said = json.dumps({"text": "two\nlines \x1b[31m 東京\n"})
    done = box.run("--json", said, "box__say")
    assert (done.stdout, done.stderr) == ("two\nlines \x1b[31m 東京\n", "")


def test_json_is_one_document_with_the_result_as_the_server_wrote_it(box: Stage) -> None:
    done = box.run("--output", "json", "box__echo", "--x", "東京")
    assert "東京" in done.stdout and done.stderr == ""
    assert json.loads(done.stdout) == {
        "ok": True,
        "result": {"content": [{"type": "text", "text": "recorded"}], "structuredContent": {"x": "東京"}},
    }


def test_yaml_is_the_same_document(box: Stage) -> None:
    assert box.run("--output=yaml", "box__echo", "--x", "no").stdout.splitlines() == [
        "ok: true",
        "result:",
        "  content:",
        "    - type: text",
        "      text: recorded",
        "  structuredContent:",
        '    x: "no"',
    ]


def test_a_table_has_rows_and_columns(box: Stage) -> None:
    assert box.run("--output", "table", "box__people").stdout.splitlines() == ["name  age", "Ada   36", "東京"]
    assert box.run("--output", "table", "box__say", "--x=1").stdout == "None\n"


def test_a_result_without_content_is_an_empty_line_less(box: Stage) -> None:
    assert box.run("box__nothing").stdout == ""


def test_images_and_other_data_are_written_to_files_and_named(box: Stage) -> None:
    lines = box.run("box__picture").stdout.splitlines()
    path = Path(lines[1].partition(": ")[2].rstrip("]"))
    assert lines[0] == "here" and lines[1].startswith("[image/png, 68 bytes: ")
    assert path.read_bytes()[:4] == b"\x89PNG" and path.parent.stat().st_mode & 0o077 == 0
    assert lines[3] == "[resource_link: https://example.org/a]"
    for left in path.parent.iterdir():
        left.unlink()
    path.parent.rmdir()
    named = json.loads(box.run("--output", "json", "--output-dir", "out", "box__picture").stdout)["result"]["content"]
    assert Path(named[1]["path"]) == box.folder / "out/picture-1.png"
    assert (box.folder / named[2]["resource"]["path"]).read_bytes() == b"\0\1\2"
    assert {**named[1], "path": "", "sha256": ""} == {
        "type": "image",
        "mimeType": "image/png",
        "path": "",
        "bytes": 68,
        "sha256": "",
    }


def test_json_keeps_images_whole_unless_a_folder_is_named(box: Stage) -> None:
    content = json.loads(box.run("--output", "json", "box__picture").stdout)["result"]["content"]
    assert content[1]["data"].startswith("iVBOR")


@pytest.mark.parametrize(
    ("before", "behind", "stdin"),
    [
        (["--json", '{"x": "a", "n": 1}'], ["--n", "2"], ""),
        ([], ["--json", '{"x": "a", "n": 1}', "--n", "2"], ""),
        (["--json-file", "all.json"], ["--n=2"], ""),
        ([], ["--n", "2", "--json-file=-"], '{"x": "a"}'),
        (["--json-stdin"], ["--n", "2"], '{"x": "a"}'),
        ([], ["--n", "2", "--x@=x.txt"], ""),
        ([], ["--n", "2", "--x@=-"], "a"),
    ],
)
def test_arguments_come_from_where_they_are_said_to(
    before: list[str], behind: list[str], stdin: str, box: Stage
) -> None:
    (box.folder / "all.json").write_text('\ufeff{"x": "a"}', encoding="utf-8")
    (box.folder / "x.txt").write_text("a", encoding="utf-8")
    box.run(*before, "box__echo", *behind, stdin=stdin)
    assert [json.loads(call) for call in box.calls()] == [{"x": "a", "n": 2}]


def test_a_servers_standard_error_is_shown_when_it_is_asked_for(box: Stage) -> None:
    assert box.run("--verbose", "box__echo").stderr == "starting up\n"
    assert box.run("box__echo").stderr == ""


def test_a_server_stays_for_the_next_call_where_that_is_asked(box: Stage) -> None:
    runtime = box.folder.parent / "runtime"
    runtime.mkdir()
    box.environment["XDG_RUNTIME_DIR"] = str(runtime)
    for number in ("1", "2"):
        assert box.run("--keep-alive", "30", "box__echo", "--n", number).stdout == "recorded\n"
    assert box.calls() == ['{"n": 1}', '{"n": 2}'] and len(box.processes()) == 1
    assert box.run("--keep-alive", "0", "box__echo").stdout == "recorded\n"
    box.wait_for_end()


def test_a_server_at_a_url_is_called_too(stage: Stage) -> None:
    with web_server() as url:
        stage.configure("web", {"url": url, "headers": {"Authorization": "${LOGIN}"}})
        stage.environment["LOGIN"] = LOGIN
        assert stage.run("web__echo", "--x", "007").stdout == "007\n"
        assert "web__echo" in stage.run("--help").stdout


def test_on_a_terminal_what_a_tool_says_cannot_steer_it(box: Stage) -> None:
    ours, theirs = pty.openpty()
    command = [*COMMAND, "--json", json.dumps({"text": "\x1b[31mred"}), "box__say"]
    subprocess.run(command, stdout=theirs, env=box.environment, cwd=box.folder, timeout=30, check=True)
    os.close(theirs)
    shown = os.read(ours, 1000)
    os.close(ours)
    assert shown == b"\\x1b[31mred\r\n"
