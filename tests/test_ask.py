"""`-p`: one turn of the real program as a process, in its three forms, with its exit codes."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from stage import PROGRAM, call_text

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Script = Callable[..., str]

NO_SERVERS = ("--no-servers",)


def test_text_goes_to_standard_output_and_tool_lines_to_standard_error(program: Run, script: Script) -> None:
    model = script("I look. " + call_text("calculate", expression="6 * 7"), "It is 42.\n")
    done = program("-p", "six times seven?", "--model", model)
    assert done.stdout == "I look.\nIt is 42.\n"
    assert done.stderr.splitlines() == [
        "[MCP: Detected 1 tool call]",
        "[MCP: Calling tool 'calculate']",
        "[MCP: Tool 'calculate' completed]",
    ]


def test_json_is_one_document_with_the_calls_and_the_cost(program: Run, script: Script) -> None:
    model = script("I look. " + call_text("calculate", expression="6 * 7"), "It is 42.")
    done = program("-p", "six times seven?", "--model", model, "--output-format", "json")
    assert done.stderr == ""
    document = json.loads(done.stdout)
    result = document["result"]
    seconds = result["calls"][0].pop("seconds")
    assert document["ok"] is True and seconds >= 0
    assert (result["text"], result["reason"], result["notices"]) == ("It is 42.", "answered", [])
    assert result["calls"] == [
        {
            "server": "board",
            "tool": "calculate",
            "arguments": {"expression": "6 * 7"},
            "status": "completed",
            "text": "6 * 7 = 42",
        }
    ]
    usage = result["usage"]
    assert len(usage["model_calls"]) == 2
    for key in ("prompt_tokens", "reused_tokens", "prefilled_tokens", "generated_tokens", "prefill_s", "generate_s"):
        assert usage[key] == pytest.approx(sum(call[key] for call in usage["model_calls"]))
    second = usage["model_calls"][1]
    assert second["reused_tokens"] + second["prefilled_tokens"] == second["prompt_tokens"]
    assert second["reused_tokens"] > 0


def test_stream_json_is_the_events_of_the_turn(program: Run, script: Script) -> None:
    model = script(
        "<think>Hm.</think>" + call_text("calculate", expression="6 * 7"),
        "42",
    )
    done = program("-p", "six times seven?", "--model", model, "--output-format", "stream-json")
    events: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [kind for kind, _ in groupby(event["type"] for event in events)]
    assert kinds == ["thought", "call_found", "tool_started", "tool_finished", "text", "turn_ended"]
    call, finished, end = (next(e for e in events if e["type"] == kind) for kind in (kinds[1], kinds[3], kinds[5]))
    assert call["call"] == {"name": "calculate", "arguments": {"expression": "6 * 7"}, "repairs": []}
    assert finished["result"]["structured"] == {"expression": "6 * 7", "value": "42"}
    assert end["reason"] == "answered" and len(end["usage"]["model_calls"]) == 2


def test_what_is_not_ascii_stays_readable(program: Run, script: Script) -> None:
    done = program("-p", "こんにちは", "--model", script("はい、東京です。"), "--output-format", "json", *NO_SERVERS)
    assert "はい、東京です。" in done.stdout


@pytest.mark.parametrize("arguments", [("-p", "-"), ()], ids=["-p -", "a pipe"])
def test_the_prompt_may_come_from_standard_input(arguments: tuple[str, ...], program: Run, script: Script) -> None:
    assert program(*arguments, "--model", script("Hello."), *NO_SERVERS, stdin="hi\n").stdout == "Hello.\n"


SERVER = '''
from mcp.server.mcpserver import MCPServer
server = MCPServer("harbour")
@server.tool()
def get_tide(harbour: str) -> str:
    """Tide height at a harbour."""
    open("called", "a").close()
    return f"2.4 metres at {harbour}"
server.run("stdio")
'''


@pytest.fixture
def harbour(folder: Path) -> str:
    """A configuration with a server of one's own."""
    (folder / "harbour.py").write_text(SERVER, encoding="utf-8")
    command = json.dumps(PROGRAM[0])
    (folder / "own.toml").write_text(
        f'[[servers]]\nname = "harbour"\ncommand = {command}\nargs = ["harbour.py"]\n', encoding="utf-8"
    )
    return "own.toml"


@pytest.mark.parametrize(
    ("allow", "status"), [((), "declined"), (("--allow", "get_tide"), "completed")], ids=["nobody to ask", "allowed"]
)
def test_a_call_that_needs_approval_runs_only_when_it_is_allowed(
    allow: tuple[str, ...], status: str,
    program: Run, script: Script, harbour: str, folder: Path,
) -> None:  # fmt: skip
    model = script(call_text("get_tide", harbour="Husum"), "Done.")
    done = program("-p", "tide?", "--model", model, "--config", harbour, "--output-format", "json", *allow)
    result = json.loads(done.stdout)["result"]
    assert [call["status"] for call in result["calls"]] == [status]
    assert (folder / "called").exists() == (status == "completed")
    assert bool(result["notices"]) == (status == "declined")


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("--model", "missing.gguf"), 5, "ModelError"),
        (("--config", "missing.toml"), 3, "ConfigError"),
        (("--server", "missing"), 6, "ServerNotFound"),
        (("--backend", "toaster"), 2, "UsageError"),
        (("-p", ""), 2, "UsageError"),
        (("--model", "replies.json"), 1, "ModelError"),
    ],
    ids=["no model", "no configuration", "no server", "no backend", "no prompt", "the model fails"],
)
def test_an_error_is_one_document_with_a_type_and_an_exit_code(
    arguments: tuple[str, ...], code: int, word: str, program: Run, script: Script
) -> None:
    script()
    done = program("-p", "hi", "--output-format", "json", *arguments, code=code)
    document = json.loads(done.stdout)
    assert (document["ok"], document["error"]["type"]) == (False, word)
    assert done.stderr == ""


def test_a_turn_without_an_answer_fails(program: Run, script: Script) -> None:
    model = script(call_text("calculate", expression="1 + 1"))
    done = program("-p", "x", "--model", model, "--max-steps", "1", "--output-format", "json", code=1)
    assert json.loads(done.stdout)["result"]["reason"] == "steps"


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["INT", "TERM", "HUP"]
)
def test_a_signal_ends_the_turn_in_good_order(
    number: signal.Signals, code: int, script: Script, environment: dict[str, str], folder: Path
) -> None:
    model = script({"text": "I wait", "wait": True})
    arguments = ["-p", "x", "--model", model, "--output-format", "stream-json"]
    with subprocess.Popen(
        [*PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=folder, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert json.loads(process.stdout.readline())["type"] == "text"
        servers = children(process.pid)
        process.send_signal(number)
        rest, errors = process.communicate(timeout=10)
    assert process.returncode == code
    assert json.loads(rest.splitlines()[-1])["error"]["type"] == "Interrupted"
    assert errors == ""
    assert servers and not [server for server in servers if Path(f"/proc/{server}").exists()]


def test_a_reader_that_goes_away_ends_the_turn_quietly(
    script: Script, environment: dict[str, str], folder: Path
) -> None:
    model = script("word " * 50_000)
    arguments = f"-p x --model {model} --no-servers --max-tokens 100000 --output-format stream-json"
    command = ["bash", "-o", "pipefail", "-c", f"{' '.join(PROGRAM)} {arguments} | head -n 1"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, timeout=30, check=False)
    assert json.loads(done.stdout)["type"] == "text"
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("form", ["text", "json"])
def test_another_locale_breaks_nothing(form: str, script: Script, environment: dict[str, str], folder: Path) -> None:
    latin = {**environment, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    command = [*PROGRAM, "-p", "x", "--model", script("東京 is far"), "--no-servers", "--output-format", form]
    done = subprocess.run(command, capture_output=True, env=latin, cwd=folder, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert ("東京 is far".encode() if form == "json" else b"?? is far") in done.stdout


def test_without_a_writable_home_the_turn_still_works(
    script: Script, environment: dict[str, str], folder: Path
) -> None:
    command = [*PROGRAM, "-p", "x", "--model", script(call_text("calculate", expression="6 * 7"), "Done.")]
    homeless = {**environment, "HOME": "/proc/no/such/home"}
    done = subprocess.run(command, capture_output=True, text=True, env=homeless, cwd=folder, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert "[MCP: Tool 'calculate' completed]" in done.stderr


def children(process: int) -> list[int]:
    """The process numbers of a process's children."""
    found = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="utf-8")
    return [int(number) for number in found.split()]
