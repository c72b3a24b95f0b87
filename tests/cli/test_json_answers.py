"""`-p --json-schema`: the answer is a JSON value of the schema, held by a grammar, or corrected, or exit code 1."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcp_servers.serving import serve
from rkllm_chat.storage.session_files import SessionDirectory
from stage import Run, Script, call_text

SHIP = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "masts": {"enum": [1, 2, 3]}},
    "required": ["name", "masts"],
    "additionalProperties": False,
}
VALID = '{"name": "Aurora", "masts": 3}'
NO_SERVERS = ("--no-servers",)


@pytest.mark.parametrize("answer", [VALID, f"```json\n{VALID}\n```", f"\n {VALID}\n"])
def test_a_valid_answer_is_printed_alone(answer: str, program: Run, script: Script) -> None:
    done = program("-p", "Which ship?", "--json-schema", json.dumps(SHIP), "--model", script(answer), *NO_SERVERS)
    assert (done.stdout, done.stderr) == (f"{VALID}\n", "")


def test_an_invalid_answer_is_corrected_twice_at_most(
    program: Run, script: Script, folder: Path, environment: dict[str, str], shelf: SessionDirectory
) -> None:
    (folder / "ship.json").write_text(json.dumps(SHIP), encoding="utf-8")
    options = ("--json-schema", "ship.json", *NO_SERVERS, "--output-format", "json", "--continue")
    done = program("-p", "Which?", *options, "--model", script("Aurora!", '{"name": "Aurora", "masts": 4}', VALID))
    result = json.loads(done.stdout)["result"]
    assert (result["value"], result["text"]) == ({"name": "Aurora", "masts": 3}, VALID)
    assert len(result["usage"]["model_calls"]) == 3
    (session,) = shelf.list_ids()
    path = Path(environment["HOME"]) / f".local/state/rkllm-chat/sessions/{session}.jsonl"
    records = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    said = [record["text"] for record in records if record.get("role") == "user"]
    assert json.dumps(SHIP) in said[0] and "not JSON" in said[1] and "masts must be one of 1, 2, 3, not 4" in said[2]


def test_an_answer_that_stays_invalid_fails_with_the_reason(program: Run, script: Script) -> None:
    model = script("no", "still no", '{"name": 5, "masts": 1}', VALID)
    options = ("--json-schema", json.dumps(SHIP), *NO_SERVERS, "--model", model)
    done = program("-p", "Which?", *options, code=1)
    assert done.stdout == "" and "name must be text, not 5" in done.stderr
    error = json.loads(program("-p", "Which?", *options, "--output-format", "json", code=1).stdout)["error"]
    assert (error["type"], error["details"]["answer"]) == ("ModelError", '{"name": 5, "masts": 1}')


@pytest.mark.slow
def test_tools_are_called_before_the_answer(program: Run, script: Script) -> None:
    model = script(call_text("calculate", expression="1 + 2"), "It has three.", VALID)
    done = program("-p", "How many?", "--json-schema", json.dumps(SHIP), "--model", model)
    assert done.stdout == f"{VALID}\n"
    assert "[MCP: Tool 'calculate' completed]" in done.stderr


def test_an_answer_of_a_service_is_corrected(
    program: Run, script: Script, folder: Path, environment: dict[str, str]
) -> None:
    """The service is this program's own API server: the replies cross the `openai` backend."""
    model = script("Aurora!", f"Here: {VALID}", VALID)
    with serve("openai", "--no-token", "--model", model, port_option="--port", env=environment, cwd=folder) as served:
        options = ("--model", f"{served.url}#replies.json", "--json-schema", json.dumps(SHIP), *NO_SERVERS)
        done = program("-p", "Which?", *options)
    assert done.stdout == f"{VALID}\n"


@pytest.mark.parametrize("option", ["{", "missing.json", "list.json", '{"a": 1, "a": 2}'])
def test_a_schema_that_cannot_be_read_is_an_error(option: str, program: Run, script: Script, folder: Path) -> None:
    (folder / "list.json").write_text("[]", encoding="utf-8")
    done = program("-p", "x", "--json-schema", option, "--model", script("{}"), *NO_SERVERS, code=2)
    (line,) = done.stderr.splitlines()
    assert "schema" in line and done.stdout == ""


@pytest.mark.model
def test_the_shipped_model_is_held_to_the_schema(program: Run) -> None:
    """It was never trained to answer in JSON, so only the grammar can bring this about."""
    options = ("--json-schema", json.dumps(SHIP), "--model", "tiny-tools", *NO_SERVERS, "--output-format", "json")
    result = json.loads(program("-p", "Name a ship and its masts.", *options).stdout)["result"]
    assert set(result["value"]) == {"name", "masts"} and result["value"]["masts"] in (1, 2, 3)
    assert len(result["usage"]["model_calls"]) == 1
