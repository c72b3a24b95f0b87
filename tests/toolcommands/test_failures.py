"""What fails is told in one line each, with the exit code of its kind, and nothing is called."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rkllm_chat.toolcommands.calling import SMALLEST
from toolcommands.stage import COMMAND, Stage, is_running
from toolcommands.web import web_server


def test_without_configuration_the_paths_and_the_smallest_configuration_are_told(stage: Stage) -> None:
    lines = stage.refuse("board__get_time", "--place", "Tokyo", code=3)
    home = stage.environment["HOME"]
    files = [f"{home}/.mcp.json", f"{home}/.config/rkllm-chat/config.toml", ".claude/mcp.json", "mcp.json"]
    tried = ", ".join([*files, "mcp_servers.json", "mcp_config.toml"])
    assert lines == [
        f"mcp-tool: No configuration names a server. Tried: {tried}.",
        f"mcp-tool: The smallest that works, as ./mcp.json: {SMALLEST}",
    ]
    (stage.folder / "mcp.json").write_text(lines[1].partition("mcp.json: ")[2], encoding="utf-8")
    assert "in Tokyo" in stage.run("board__get_time", "--place", "Tokyo").stdout


def test_the_nearer_file_wins_and_a_named_file_stands_alone(stage: Stage) -> None:
    stage.add("box", [{"name": "see", "does": "see"}], env={"A": "near", "B": "near"})
    near = json.loads((stage.folder / "mcp.json").read_text(encoding="utf-8"))["mcpServers"]["box"]
    far = {"mcpServers": {"box": {**near, "env": {"A": "far", "C": "far"}}, "more": {"command": "/no/such"}}}
    (Path(stage.environment["HOME"]) / ".mcp.json").write_text(json.dumps(far), encoding="utf-8")
    seen = json.loads(stage.run("box__see").stdout)
    assert (seen["A"], seen["B"], seen["C"]) == ("near", "near", "far")
    alone = json.loads(stage.run("--config", str(Path(stage.environment["HOME"]) / ".mcp.json"), "box__see").stdout)
    assert alone["A"] == "far" and "B" not in alone


def test_a_variable_that_another_server_lacks_does_not_matter(box: Stage) -> None:
    box.configure("other", {"command": "x", "env": {"TOKEN": "${NOT_SET_ANYWHERE}"}})
    box.run("box__echo")
    (line,) = box.refuse("other__echo", code=3)
    assert "needs the variable NOT_SET_ANYWHERE, which is not set" in line


LIMIT = 'Server "box" did not answer the call within 0.6 s.'
DEATH = 'Server "box" ended in the middle (it exited with 7). It said: starting up / my last words'
FAILURES = [
    (["box__fail"], 1, 'The tool "fail" failed: it broke in two lines'),
    (["box__echo", "--y", "1"], 2, "There is no flag --y. The tool's flags are: --x, --n."),
    (["--output", "xml", "box__echo"], 2, '--output "xml" is unknown. Known are text, json, yaml, table.'),
    (["--outptu", "json", "box__echo"], 2, "There is no option --outptu. Did you mean --output?"),
    (["--timeout", "soon", "box__echo"], 2, '--timeout "soon" is no number of seconds. From 0.001 to 86400.'),
    (["--timeout"], 2, "--timeout needs a value."),
    (["--version=1"], 2, "--version takes no value."),
    (["--json", "{}", "--json", "{}"], 2, "--json is given twice."),
    (["box__echo", "--timeout", "1"], 2, "--timeout comes before the tool's name."),
    ([], 2, "No tool is named. mcp-tool --help lists them."),
    (["echo"], 2, '"echo" names no tool of a server. Write SERVER__TOOL; mcp-tool --help lists them.'),
    (["--config", "none.json", "box__echo"], 3, "none.json: No such file or directory. Is the path right?"),
    (["box__die"], 5, DEATH),
    (["bax__echo"], 6, 'There is no server "bax". Did you mean box?'),
    (["box__ecko"], 6, 'Server "box" has no tool "ecko". Did you mean box__echo?'),
    (["box__error"], 6, 'Server "box" answered with error -32602: bad params'),
    (["--timeout", "0.6", "box__hang"], 7, LIMIT),
]


@pytest.mark.parametrize(("words", "code", "said"), FAILURES, ids=lambda value: str(value))
def test_every_kind_of_failure_has_its_exit_code_and_its_line(
    words: list[str], code: int, said: str, box: Stage
) -> None:
    (line,) = box.refuse(*words, code=code)
    assert line.startswith(f"mcp-tool: {said}")


def test_a_server_that_cannot_be_started_is_told(stage: Stage) -> None:
    stage.configure("box", {"command": "/no/such"})
    (line,) = stage.refuse("box__echo", code=5)
    assert line.startswith('mcp-tool: Server "box": the command "/no/such" cannot be found.')


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_failure_is_also_a_document_where_documents_are_wanted(form: str, box: Stage) -> None:
    done = box.run("--output", form, "box__ecko", code=6)
    assert done.stderr.splitlines() == ['mcp-tool: Server "box" has no tool "ecko". Did you mean box__echo?']
    if form == "yaml":
        assert done.stdout.splitlines()[:4] == [
            "ok: false",
            "error:",
            "  type: ToolNotFound",
            '  message: "Server \\"box\\" has no tool \\"ecko\\"."',
        ]
        return
    error = json.loads(done.stdout)["error"]
    assert (error["type"], error["details"]["closest"]) == ("ToolNotFound", ["box__echo"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--json", "{", "box__echo"], "--json: not valid JSON: Expecting property name"),
        (["--json", "{}", "--json-stdin", "box__echo"], "--json and --json-stdin cannot be combined."),
        (["--json", "{}", "box__echo", "--json-file", "x"], "--json and --json-file cannot be combined."),
        (["--json-file", "none.json", "box__echo"], "none.json cannot be read: No such file or directory."),
        (["--json-stdin", "box__echo", "--x@=-"], "Standard input can be read only once."),
        (["box__echo", "--x@=none.txt"], "none.txt cannot be read: No such file or directory."),
    ],
)  # fmt: skip
def test_arguments_that_cannot_be_read_are_told_and_nothing_is_called(words: list[str], said: str, box: Stage) -> None:
    (line,) = box.refuse(*words, code=2)
    assert line.startswith(f"mcp-tool: {said}")
    assert box.calls() == []


def test_a_word_that_is_no_text_is_refused(box: Stage) -> None:
    command = [*map(os.fsencode, COMMAND), b"box__echo", b"--x", b"\xff"]
    done = subprocess.run(command, capture_output=True, env=box.environment, cwd=box.folder, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == 'mcp-tool: "\ufffd" is not UTF-8.\n'


def test_what_does_not_fit_can_be_sent_all_the_same(box: Stage) -> None:
    box.refuse("--json", '{"n": "text"}', "box__echo", code=2)
    box.run("--no-check", "--json", '{"n": "text"}', "box__echo")
    assert box.calls() == ['{"n": "text"}']


def test_a_pattern_that_takes_for_ever_is_given_up(stage: Stage) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
    stage.add("box", [{"name": "tool", "inputSchema": schema}])
    (line,) = stage.refuse("box__tool", "--x", "a" * 60 + "b", code=7)
    assert line.startswith("mcp-tool: The tool's schema is not worked out within 2 s. Give the arguments as JSON")
    assert stage.calls() == []


def test_a_login_that_is_missing_is_told_with_exit_code_4(stage: Stage) -> None:
    with web_server() as url:
        stage.configure("web", {"url": url})
        (line,) = stage.refuse("web__echo", "--x", "1", code=4)
    assert line.startswith('mcp-tool: Server "web"') and "401" in line


def test_a_fault_of_ours_is_one_line_and_exit_code_8(box: Stage) -> None:
    code = "import rkllm_chat.flags as flags; del flags.read_words; from rkllm_chat.toolcommands import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "box__echo"],
        capture_output=True,
        text=True,
        env=box.environment,
        cwd=box.folder,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (8, "")
    assert done.stderr.startswith("mcp-tool: ImportError: ") and done.stderr.count("\n") == 1
    assert not any(map(is_running, box.processes()))
