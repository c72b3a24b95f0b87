"""The pages of `mcp-tool --help`: of all tools, and of one, with an example that runs as it is printed."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from flag_rows import (
    BOOLEAN,
    BOX,
    CIRCLE,
    COLOUR,
    INTEGER,
    NULL,
    NUMBER,
    POINT,
    ROWS,
    TEXT,
    Row,
    any_of,
    list_of,
    map_of,
    object_of,
)
from rkllm_chat.flags import check_arguments, join_arguments, read_words
from rkllm_chat.toolcommands.examples import make_example, show_as_flags
from toolcommands.stage import Stage


def test_all_tools_are_listed_by_server_a_line_each_and_what_fails_is_told(box: Stage) -> None:
    box.add("other", [{"name": "paint", "description": "Paints a wall.\n\nAt length."}])
    box.configure("broken", {"command": "/no/such"})
    box.configure("off", {**box.servers["box"], "disabled": True})
    lines = box.run("--help").stdout.splitlines()
    assert lines[0] == "Usage: mcp-tool [OPTIONS] SERVER__TOOL [FLAGS]"
    assert lines[lines.index("other:") + 1 : lines.index("other:") + 3] == ["  other__paint  Paints a wall.", ""]
    assert "  box__fail     Does fail." in lines
    broken = lines[lines.index("broken:") + 1]
    assert broken.startswith('  (not available: Server "broken": the command "/no/such" cannot be found.')
    assert lines[lines.index("off:") + 1].startswith('  (not available: The server "off" is switched off')
    assert any(line.startswith("Exit codes: 0 ok, 1 the tool failed") for line in lines)


def test_the_list_is_a_document_where_a_document_is_wanted(box: Stage) -> None:
    box.configure("broken", {"command": "/no/such"})
    found = json.loads(box.run("--output", "json", "--help").stdout)["result"]["servers"]
    assert [(one["server"], one["ok"]) for one in found] == [("box", True), ("broken", False)]
    assert "echo" in [tool["name"] for tool in found[0]["tools"]]
    assert found[1]["error"]["type"] == "ConnectionError"


def test_help_without_configuration_says_what_was_tried(stage: Stage) -> None:
    shown = stage.run("--help").stdout
    assert "No configuration names a server. Tried: " in shown and "The smallest that works" in shown


PAGE = """\
Usage: mcp-tool [OPTIONS] box__paint [FLAGS]

Paints.

Flags:
  --colour red|green|blue   which (required)
  --coats INTEGER           (at least 1, at most 9, default 2)
  --dry, --no-dry
  --walls TEXT ...          (at least 1 entries)
  --at JSON
    --at.x INTEGER
    --at.y NUMBER
    --at.label TEXT
  --mix NAME=VALUE ...
  --till TEXT               (or null)
  '--odd name' TEXT
  --json TEXT
"""


def test_a_tool_has_a_page_with_description_flags_example_and_schema(stage: Stage) -> None:
    schema = object_of(
        colour={**COLOUR, "description": "which"},
        coats={**INTEGER, "minimum": 1, "maximum": 9, "default": 2},
        dry=BOOLEAN,
        walls=list_of(TEXT, minItems=1),
        at=POINT,
        mix=map_of(NUMBER),
        till=any_of(TEXT, NULL),
        **{"odd name": TEXT, "json": TEXT},
    )
    schema["required"] = ["colour"]
    stage.add("box", [{"name": "paint", "description": "Paints.", "inputSchema": schema}])
    page = stage.run("--help", "box__paint").stdout
    assert page.startswith(PAGE)
    assert (
        '\nExample:\n  mcp-tool box__paint --colour red\n  mcp-tool --json \'{"colour": "red"}\' box__paint\n' in page
    )
    assert "--json behind it is the tool's" in page
    assert json.loads(page.partition("Schema:\n")[2]) == schema
    assert stage.run("box__paint", "--help").stdout == page


def test_a_tool_that_has_an_argument_called_help_is_explained_by_the_option_before_it(stage: Stage) -> None:
    stage.add("box", [{"name": "tool", "inputSchema": object_of(help=TEXT)}])
    stage.run("box__tool", "--help", "me")
    assert stage.calls() == ['{"help": "me"}']
    assert "--help TEXT" in stage.run("--help", "box__tool").stdout


EXAMPLES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "text": TEXT,
    "number": {**INTEGER, "minimum": 5, "multipleOf": 5},
    "negative": {**NUMBER, "exclusiveMaximum": 0},
    "choice": COLOUR,
    "boolean": BOOLEAN,
    "null": NULL,
    "list": list_of(INTEGER, minItems=2),
    "object": POINT,
    "map": map_of(INTEGER),
    "union": {"oneOf": [CIRCLE, BOX]},
    "date": {**TEXT, "format": "date-time"},
    "pattern": {**TEXT, "pattern": "^[A-Z]{2,}$"},
    "length": {**TEXT, "minLength": 12, "maxLength": 12},
    "given": {**TEXT, "examples": ["it's --two\nlines"]},
    "dashes": {**TEXT, "const": "--x"},
    "text_or_null": {"anyOf": [TEXT, NULL], "const": None},
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_as_it_is_printed(name: str, stage: Stage) -> None:
    schema = {"type": "object", "properties": {"odd name": EXAMPLES[name]}, "required": ["odd name"]}
    stage.add("box", [{"name": "tool", "inputSchema": schema}])
    page = stage.run("box__tool", "--help").stdout
    printed = page.partition("\nExample:\n")[2].partition("\n\nSchema:")[0]
    commands = [f"mcp-tool{rest}" for rest in printed.split("  mcp-tool")[1:]]
    assert len(commands) == 2
    for command in commands:
        done = stage.shell(command)
        assert (done.returncode, done.stdout, done.stderr) == (0, "recorded\n", "")
    flags, whole = stage.calls()
    assert flags == whole


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_schema_has_an_example_that_it_takes(row: Row) -> None:
    schema = row.schema | {"required": list(row.arguments)}
    example = make_example(schema)
    assert example is not None and example.keys() >= row.arguments.keys()
    check_arguments(example, schema)
    words = show_as_flags(example, schema)
    if words is not None:
        assert join_arguments(read_words(words, schema, {})[0], schema, {}) == example


def test_where_no_example_is_found_none_is_printed(stage: Stage) -> None:
    hard = {"type": "object", "properties": {"x": {**TEXT, "pattern": "^zq{7}$"}}, "required": ["x"]}
    stage.add("box", [{"name": "tool", "inputSchema": hard}])
    assert "\nExample: none, for no values were found that this schema takes.\n" in stage.run("box__tool", "-h").stdout


def test_what_a_server_says_cannot_steer_the_terminal(stage: Stage) -> None:
    wild = {"type": "object", "properties": {"\x1b[31m": {**TEXT, "description": "\x1b]0;x\x07"}}}
    stage.add("box", [{"name": "tool\x1b[2J", "description": "\x1b[31mred", "inputSchema": wild}])
    assert "\x1b" not in stage.run("--help").stdout + stage.run("--help", "box__tool\x1b[2J").stdout


def test_the_version_is_one_line(stage: Stage) -> None:
    assert stage.run("--version").stdout.startswith("mcp-tool 0.")


def test_help_imports_no_sdk(box: Stage) -> None:
    line = f"{sys.executable} -X importtime -m rkllm_chat.toolcommands --help 2>&1 >/dev/null"
    done = box.shell(line)
    imported = {line.rpartition("|")[2].strip() for line in done.stdout.splitlines()}
    assert "rkllm_chat.toolcommands.listing" in imported and not imported & {"mcp", "pydantic", "asyncio", "argparse"}
