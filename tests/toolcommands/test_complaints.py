"""What users of other MCP command lines complain about, by theme; each complaint is a test that it is not so here.

The complaints are from the issue threads of mcporter, the inspector, fastmcp, mcp2cli, f/mcptools, philschmid/mcp-cli,
wong2/mcp-cli, IBM/mcp-cli, and of agents that call tools.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flag_rows import BOOLEAN, INTEGER, NULL, TEXT, any_of, list_of, object_of
from toolcommands.stage import COMMAND, Stage, is_running

# A. wrong types from flags: what is wanted of an argument, the words, what must arrive
TYPES: dict[str, tuple[Any, list[str], Any]] = {
    "an id of digits for a text was sent as a number": (TEXT, ["--x", "1234567890"], "1234567890"),
    "a timestamp for a text was sent as a number": (TEXT, ["--x", "1712345678.123450"], "1712345678.123450"),
    "a PIN lost its leading zeros": (TEXT, ["--x", "00713"], "00713"),
    "a text that says true was sent as true": (TEXT, ["--x", "true"], "true"),
    "a nested object did not arrive": (object_of(a=object_of(b=INTEGER)), ["--x", '{"a": {"b": 1}}'], {"a": {"b": 1}}),
    "an object argument was impossible": (object_of(a=INTEGER), ["--x.a", "1"], {"a": 1}),
    "a list stayed a text": (list_of(TEXT), ["--x", '["a", "b"]'], ["a", "b"]),
    "a repeated flag kept its last value": (list_of(TEXT), ["--x", "a", "--x", "b"], ["a", "b"]),
    "a text was split at its commas": (list_of(TEXT), ["--x", "a,b"], ["a,b"]),
    "text or null had to be quoted as JSON": (any_of(TEXT, NULL), ["--x", "hello"], "hello"),
    "a number or null by oneOf stayed a text": ({"oneOf": [INTEGER, NULL]}, ["--x", "5"], 5),
    "a list or a text was always a text": (any_of(list_of(TEXT), TEXT), ["--x", '["a"]'], ["a"]),
    "a boolean could not be false": (BOOLEAN | {"default": True}, ["--no-x"], False),
    "an empty text was dropped": (TEXT, ["--x="], ""),
    "zero was dropped": (INTEGER, ["--x", "0"], 0),
    "null could not be sent": (any_of(TEXT, NULL), ["--x:=null"], None),
    "a whole number became 1.0": (INTEGER, ["--x", "1"], 1),
    "a choice behind a reference was not typed": ({"$ref": "#/$defs/level"}, ["--x", "2"], 2),
}


@pytest.mark.parametrize("complaint", TYPES)
def test_complaint_a(complaint: str, stage: Stage) -> None:
    schema, words, value = TYPES[complaint]
    stage.add("box", [{"name": "tool", "inputSchema": object_of(x=schema) | {"$defs": {"level": {"enum": [1, 2]}}}}])
    stage.run("box__tool", *words)
    assert stage.calls() == [json.dumps({"x": value})]


def test_complaint_a_what_was_not_given_was_sent_as_null(box: Stage) -> None:
    box.run("box__echo", "--n", "1")
    assert box.calls() == ['{"n": 1}']


def test_complaint_a_no_arguments_were_sent_as_none_at_all(box: Stage) -> None:
    box.run("box__nothing")
    assert box.calls() == ["{}"]


def test_complaint_a_an_unknown_flag_was_dropped_with_exit_code_0(box: Stage) -> None:
    assert box.refuse("box__echo", "--xx", "1", code=2) == ["mcp-tool: There is no flag --xx. Did you mean --x?"]
    assert box.calls() == []


def test_complaint_a_json_dropped_fields(box: Stage) -> None:
    whole = {"x": "1", "more": {"deep": [1, None, {"a": 1.5}]}, "null": None}
    box.run("--json", json.dumps(whole), "box__echo")
    assert box.calls() == [json.dumps(whole)]


def test_complaint_a_not_every_tool_took_json(stage: Stage) -> None:
    stage.add("box", [{"name": "tool", "inputSchema": object_of(json=TEXT)}])
    stage.run("--json", '{"json": "a"}', "box__tool")
    assert stage.calls() == ['{"json": "a"}']


def test_complaint_b_a_tool_that_failed_exited_with_0(box: Stage) -> None:
    assert box.refuse("box__fail", code=1) == ['mcp-tool: The tool "fail" failed: it broke in two lines']


def test_complaint_b_an_unknown_server_exited_with_0(box: Stage) -> None:
    assert box.refuse("none__tool", code=6) == ['mcp-tool: There is no server "none". There are box.']


def test_complaint_b_a_broken_server_read_as_healthy(stage: Stage) -> None:
    stage.configure("box", {"command": sys.executable, "args": ["-c", "raise SystemExit('not today')"]})
    (line,) = stage.refuse("box__tool", code=5)
    assert "not today" in line
    assert "(not available: " in stage.run("--help").stdout


def test_complaint_b_a_result_that_could_not_be_written_exited_with_0(box: Stage) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        command = [*COMMAND, "box__large"]
        done = subprocess.run(command, stdout=full, env=box.environment, cwd=box.folder, timeout=30, check=False)
    assert done.returncode == 8


def test_complaint_c_a_call_started_the_server_twice_or_asked_too_much(box: Stage) -> None:
    box.run("box__echo", "--x", "1")
    assert [entry["method"] for entry in box.record("box") if "method" in entry] == [
        "initialize",
        "notifications/initialized",
        "tools/list",
        "tools/call",
    ]
    assert len(box.processes()) == 1


def test_complaint_c_imports_took_longer_than_the_call(box: Stage) -> None:
    command = [sys.executable, "-X", "importtime", *COMMAND[1:], "box__echo", "--x", "1"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=box.environment, cwd=box.folder, timeout=30, check=True
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    slow = {"mcp", "pydantic", "asyncio", "jsonschema", "argparse", "subprocess", "dataclasses", "httpx2", "rich"}
    assert "rkllm_chat.flags" in imported and not imported & slow


def test_complaint_c_listing_all_servers_took_the_sum_of_their_starts(stage: Stage) -> None:
    stage.add("one", [{"name": "tool"}], env={"FRIEND": "two.record"})
    stage.add("two", [{"name": "tool"}], env={"FRIEND": "one.record"})
    shown = stage.run("--help").stdout
    assert "one__tool" in shown and "two__tool" in shown


def test_complaint_d_an_error_was_no_json_where_json_was_wanted(box: Stage) -> None:
    for words, code in ((["box__fail"], 1), (["box__echo", "--xx"], 2), (["none__x"], 6), (["box__die"], 5), ([], 2)):
        assert json.loads(box.run("--output", "json", *words, code=code).stdout)["ok"] is False


def test_complaint_d_structured_content_was_lost(box: Stage) -> None:
    result = json.loads(box.run("--output", "json", "box__echo", "--n", "1").stdout)["result"]
    assert result["structuredContent"] == {"n": 1}


def test_complaint_d_standard_error_of_the_server_was_shown_when_all_went_well(box: Stage) -> None:
    assert box.run("box__echo").stderr == ""


def test_complaint_e_a_large_argument_did_not_fit_the_command_line(box: Stage) -> None:
    large = json.dumps({"x": "東京\n" * 100_000})
    (box.folder / "large.json").write_text(large, encoding="utf-8")
    box.run("--json-file", "large.json", "box__echo")
    box.run("--json-stdin", "box__echo", stdin=large)
    (box.folder / "large.txt").write_text("東京\n" * 100_000, encoding="utf-8")
    box.run("box__echo", "--x@=large.txt")
    assert [json.loads(call) for call in box.calls()] == [json.loads(large)] * 3


def test_complaint_e_standard_input_was_read_without_end(box: Stage) -> None:
    (line,) = [done.stderr for done in [box.run("--json-stdin", "box__echo", stdin=" " * (17 << 20), code=2)]]
    assert line == "mcp-tool: standard input is larger than 16 MB.\n"


SECRET = "s3cret-t0ken-of-mine"


def test_complaint_f_a_variable_was_not_expanded(box: Stage) -> None:
    box.add("see", [{"name": "see", "does": "see"}], env={"MY_TOKEN": "${TOKEN}-x", "OTHER": "${NONE:-default}"})
    box.environment["TOKEN"] = "t"
    seen = json.loads(box.run("see__see").stdout)
    assert (seen["MY_TOKEN"], seen["OTHER"]) == ("t-x", "default")


@pytest.mark.parametrize("form", ["text", "json", "yaml", "table"])
@pytest.mark.parametrize("tool", ["see", "fail", "die", "hang"])
def test_complaint_f_the_expanded_token_was_printed_or_kept(tool: str, form: str, box: Stage) -> None:
    box.configure("box", {**box.servers["box"], "env": {"API_TOKEN": "${TOKEN}"}})
    box.environment["TOKEN"] = SECRET
    command = [*COMMAND, "--output", form, "--timeout", "1", f"box__{tool}"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=box.environment, cwd=box.folder, timeout=30, check=False
    )
    assert SECRET not in done.stdout + done.stderr
    kept = [path for path in Path(box.environment["HOME"]).rglob("*") if path.is_file()]
    assert kept and not any(SECRET in path.read_text(encoding="utf-8") for path in kept)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in kept)


def test_complaint_f_the_token_stood_in_the_list_of_processes(box: Stage) -> None:
    box.configure("box", {**box.servers["box"], "env": {"API_TOKEN": "${TOKEN}"}})
    box.environment["TOKEN"] = SECRET
    running = subprocess.Popen([*COMMAND, "box__hang"], env=box.environment, cwd=box.folder)
    box.wait_for_call()
    lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in (running.pid, *box.processes())]
    running.terminate()
    assert running.wait(timeout=10) == 143
    assert all(lines) and not any(SECRET.encode() in line for line in lines)


def test_complaint_g_the_output_appeared_and_the_command_never_ended(box: Stage) -> None:
    box.configure("box", {**box.servers["box"], "env": {"STUBBORN": "1", "CHILD": "1"}})
    assert box.run("box__say", "--x=1").stdout == "None\n"
    assert len(box.processes()) == 2 and not any(map(is_running, box.processes()))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_complaint_g_a_command_that_was_stopped_left_its_server_behind(number: signal.Signals, box: Stage) -> None:
    box.configure("box", {**box.servers["box"], "env": {"CHILD": "1"}})
    running = subprocess.Popen(
        [*COMMAND, "box__hang"], env=box.environment, cwd=box.folder, stderr=subprocess.PIPE, text=True
    )
    box.wait_for_call()
    os.kill(running.pid, number)
    _, said = running.communicate(timeout=10)
    assert (running.returncode, said) == (128 + number, f"mcp-tool: Stopped by {number.name}.\n")
    assert len(box.processes()) == 2 and not any(map(is_running, box.processes()))


def test_complaint_g_servers_that_were_still_starting_were_left_behind(stage: Stage) -> None:
    stage.add("one", [{"name": "tool"}], env={"CHILD": "1", "FRIEND": "nobody.record"})
    stage.add("two", [{"name": "tool"}], env={"CHILD": "1"})
    running = subprocess.Popen([*COMMAND, "--help"], env=stage.environment, cwd=stage.folder, stderr=subprocess.DEVNULL)
    stage.wait_for("one", "started")
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=10) == 130
    processes = [*stage.processes("one"), *stage.processes("two")]
    assert processes and not any(map(is_running, processes))


def test_complaint_g_a_reader_that_had_enough_saw_a_traceback(box: Stage) -> None:
    command = ["bash", "-c", f"{' '.join(COMMAND)} box__large | head -c 10"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=box.environment, cwd=box.folder, timeout=30, check=True
    )
    assert (done.stdout, done.stderr) == ("x" * 10, "")
    assert not any(map(is_running, box.processes()))
