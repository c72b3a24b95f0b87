"""`call-tool` judges arguments by the same rules as `mcp-tool`, whose tables it is tried with here."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from flag_rows import BOX, CIRCLE, COLOUR, INTEGER, POINT, ROWS, TEXT, Row, list_of, object_of
from toolcommands.stage import LIMIT_S, Stage


def call_tool(stage: Stage, arguments: Any) -> dict[str, Any]:
    """The document of a call of the tool `tool` of the server `box`."""
    command = [sys.executable, "-m", "rkllm_chat", "call-tool", "box.tool", "--args", json.dumps(arguments)]
    done = subprocess.run(
        command,
        capture_output=True,
        encoding="utf-8",
        env=stage.environment,
        cwd=stage.folder,
        timeout=LIMIT_S,
        check=False,
    )
    document: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (int(not document["ok"]), "")
    return document


@pytest.mark.parametrize("row", ROWS[::8], ids=lambda row: row.name)
def test_what_fits_is_sent_as_it_is(row: Row, stage: Stage) -> None:
    stage.add("box", [{"name": "tool", "inputSchema": row.schema}])
    assert call_tool(stage, row.arguments)["ok"]
    assert stage.calls() == [json.dumps(row.arguments)]


@pytest.mark.parametrize(
    ("schema", "value", "sentence", "details"),
    [
        (INTEGER | {"minimum": 1}, 0, '"x" must be at least 1, not 0', {"path": "x", "expected": "integer", "got": 0}),
        (COLOUR, "gren", "must be one of", {"path": "x", "expected": ["red", "green", "blue"], "got": "gren"}),
        (POINT, {"y": 1}, '"x.x" is required', {"path": "x.x", "expected": "integer", "got": None}),
        (list_of(TEXT), ["a", 1], '"x.1" must be text, not 1', {"path": "x.1", "expected": "string", "got": 1}),
        ({"oneOf": [CIRCLE, BOX]}, {"kind": "box"}, '"x.width" is required', {"path": "x.width"}),
        (
            object_of(a=TEXT) | {"additionalProperties": False},
            {"b": 1},
            '"x.b" is unknown',
            {"path": "x.b", "expected": ["a"], "got": 1},
        ),
    ],
)
def test_what_does_not_fit_is_told_and_not_sent(
    schema: Any, value: Any, sentence: str, details: dict[str, Any], stage: Stage
) -> None:
    stage.add("box", [{"name": "tool", "inputSchema": object_of(x=schema)}])
    error = call_tool(stage, {"x": value})["error"]
    assert error["type"] == "ValidationError" and sentence in error["message"]
    assert {key: error["details"].get(key) for key in details} == details
    assert stage.calls() == []


def test_a_pattern_that_takes_for_ever_is_given_up(stage: Stage) -> None:
    stage.add("box", [{"name": "tool", "inputSchema": object_of(x=TEXT | {"pattern": "^(a+)+$"})}])
    assert call_tool(stage, {"x": "a" * 60 + "b"})["error"]["type"] == "TimeoutError"
    assert stage.calls() == []
