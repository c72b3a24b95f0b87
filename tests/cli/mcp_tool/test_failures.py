"""Each kind of failure has its exit code and one line on standard error, and nothing is called."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import fork_server
from cli.mcp_tool.stage import COMMAND, Stage
from mcp_client.chaos_http import open_site
from rkllm_chat.cli.mcp_tool.call_tool import MINIMAL_CONFIG


@pytest.mark.slow
def test_without_configuration_the_searched_paths_and_a_configuration_that_works_are_shown(stage: Stage) -> None:
    lines = stage.refuse("board__get_time", "--place", "Tokyo", code=3)
    home = stage.environment["HOME"]
    files = [f"{home}/.mcp.json", f"{home}/.config/rkllm-chat/config.toml", ".claude/mcp.json", ".mcp.json"]
    tried = ", ".join([*files, "mcp.json", "mcp_servers.json", "mcp_config.toml"])
    assert tried in lines[0] and lines[1].endswith(f" {MINIMAL_CONFIG}")
    (stage.folder / "mcp.json").write_text(MINIMAL_CONFIG, encoding="utf-8")
    assert "in Tokyo" in stage.run("board__get_time", "--place", "Tokyo").stdout


FAILURES: list[Any] = [
    (["box__fail"], 1, ('"fail" failed', "it broke in two lines")),
    (["--output", "xml", "box__echo"], 2, ('"xml"', "text, json")),
    (["--outptu", "json", "box__echo"], 2, ("--outptu", "Did you mean --output?")),
    (["--timeout", "soon", "box__echo"], 2, ('"soon"', "0.001", "86400")),
    (["--timeout"], 2, ("--timeout needs a value",)),
    (
        ["box__echo", "--timeout", "1"],
        2,
        (
            "--timeout",
            "before the tool",
        ),
    ),
    ([], 2, ("--help",)),
    (["echo"], 2, ('"echo"', "SERVER__TOOL", "Did you mean box__echo?")),
    (["box"], 2, ('"box"', "Its tools: rkllm-chat mcp list box")),
    (["bax"], 2, ("Did you mean the server box?",)),
    (["box", "echo"], 2, ("Did you mean box__echo?",)),
    (["box__echo", "hello"], 2, ('"hello"', "the tool's flags are: ")),
    (["--config", "none.json", "box__echo"], 3, ("none.json: No such file",)),
    (["box__die"], 5, ('"box"', "exited with 7", "starting up / my last words")),
    (["bax__echo"], 6, ('"bax"', "Did you mean box?")),
    (["board__get_time"], 6, ("configuration files", "rkllm-chat mcp add board -- rkllm-chat serve board")),
    (["box__ecko"], 6, ('"ecko"', "Did you mean box__echo?")),
    (["box__error"], 6, ("-32602", "bad params")),
    pytest.param(["--timeout", "0.6", "box__hang"], 7, ('"box"', "0.6 s"), marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("words", "code", "named"), FAILURES, ids=lambda value: str(value))
def test_every_kind_of_failure_has_its_exit_code_and_one_line(
    words: list[str], code: int, named: tuple[str, ...], box: Stage
) -> None:
    (line,) = box.refuse(*words, code=code)
    assert line.startswith("mcp-tool: ")
    assert [text for text in named if text not in line] == []


def test_a_failure_is_also_a_document_with_output_json(box: Stage) -> None:
    done = box.run("--output", "json", "box__ecko", code=6)
    assert "box__echo" in done.stderr
    error = json.loads(done.stdout)["error"]
    assert (error["type"], error["details"]["closest"]) == ("ToolNotFound", ["box__echo"])


@pytest.mark.parametrize(
    ("words", "start"),
    [
        (["--json", "{", "box__echo"], "--json is not valid JSON"),
        (["--json", "{}", "--json-stdin", "box__echo"], "--json and --json-stdin"),
        (["--json-stdin", "box__echo", "--x@=-"], "Standard input"),
        (["box__echo", "--x@=none.txt"], "none.txt cannot be read: No such file"),
    ],
)
def test_arguments_that_cannot_be_read_are_rejected_and_nothing_is_called(
    words: list[str], start: str, box: Stage
) -> None:
    (line,) = box.refuse(*words, code=2)
    assert line.startswith(f"mcp-tool: {start}")
    assert box.calls() == []


def test_an_argument_that_is_not_utf_8_is_rejected(box: Stage) -> None:
    command = [*COMMAND, "box__echo", "--x", os.fsdecode(b"\xff")]
    done = fork_server.run(command, env=box.environment, cwd=box.folder, encoding="utf-8")
    assert (done.returncode, done.stdout) == (2, "")
    assert '"\ufffd" is not UTF-8' in done.stderr


def test_no_check_sends_arguments_that_do_not_match_the_schema(box: Stage) -> None:
    box.refuse("--json", '{"n": "text"}', "box__echo", code=2)
    box.run("--no-check", "--json", '{"n": "text"}', "box__echo")
    assert box.calls() == ['{"n": "text"}']


def test_a_missing_login_exits_with_4(stage: Stage) -> None:
    with open_site("start-401") as site:
        stage.configure("web", {"url": site.url})
        (line,) = stage.refuse("web__echo", "--text", "x", code=4)
    assert '"web"' in line and "401" in line


def test_an_internal_error_is_one_line_and_exit_code_8(box: Stage) -> None:
    (box.folder / "sitecustomize.py").write_text("import sys\nsys.modules['select'] = None\n", encoding="utf-8")
    box.environment["PYTHONPATH"] = f"{box.folder}:{Path(__file__).parents[3]}"
    (line,) = box.refuse("box__echo", code=8)
    assert line.startswith("mcp-tool: ") and "import of select halted" in line
