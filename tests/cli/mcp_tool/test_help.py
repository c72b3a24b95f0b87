"""The pages of `mcp-tool --help`: of all tools, and of one, with an example that runs as it is printed."""

from __future__ import annotations

import json
import re
import time
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import pytest

from cli.flag_rows import (
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
from cli.mcp_tool.stage import Stage
from cpu_time import allow_s
from mcp_client.chaos_http import TRICKLES, open_site
from rkllm_chat.cli.mcp_tool.call_tool import MINIMAL_CONFIG
from rkllm_chat.cli.mcp_tool.examples import format_as_flags, make_example
from rkllm_chat.cli.mcp_tool.flags import check_flag_arguments, merge_arguments, parse_words


@pytest.mark.slow
def test_help_waits_for_no_server_longer_than_its_timeout(box: Stage) -> None:
    box.run("--help")  # the first run starts the fork server
    with ExitStack() as stack:
        for name in TRICKLES:
            site = stack.enter_context(open_site(f"start-trickle-{name}"))
            box.configure(name, {"url": site.url, "transport": "http"})
        started_at = time.monotonic()
        lines = box.run("--timeout", "1", "--help").stdout.splitlines()
        assert time.monotonic() - started_at < 1 + allow_s(2 / 3)
    assert "  box__fail     Does fail." in lines
    assert all("within 1 s" in lines[lines.index(f"{name}:") + 1] for name in TRICKLES)


def test_help_lists_the_tools_of_each_server_and_why_a_server_is_missing(box: Stage) -> None:
    box.add("other", [{"name": "paint", "description": "Paints a wall.\n\nAt length."}])
    box.configure("broken", {"command": "/no/such"})
    box.configure("off", {**box.servers["box"], "disabled": True})
    lines = box.run("--help").stdout.splitlines()
    assert lines[0] == "Usage: mcp-tool [OPTIONS] SERVER__TOOL [FLAGS]"
    assert lines[lines.index("other:") + 1 : lines.index("other:") + 3] == ["  other__paint  Paints a wall.", ""]
    assert "  box__fail     Does fail." in lines
    broken = lines[lines.index("broken:") + 1]
    assert broken.startswith("  (not available: ") and "/no/such" in broken
    assert lines[lines.index("off:") + 1].startswith("  (not available: ")
    assert any(line.startswith("Exit codes: 0 ok") for line in lines)


def test_the_list_of_tools_is_a_document_with_output_json(box: Stage) -> None:
    box.configure("broken", {"command": "/no/such"})
    found = json.loads(box.run("--output", "json", "--help").stdout)["result"]["servers"]
    assert [(answer["server"], answer["ok"]) for answer in found] == [("box", True), ("broken", False)]
    assert "echo" in [tool["name"] for tool in found[0]["tools"]]
    assert found[1]["error"]["type"] == "ConnectionError"


def test_help_without_configuration_names_the_searched_paths(stage: Stage) -> None:
    shown = stage.run("--help").stdout
    assert "mcp_config.toml" in shown and MINIMAL_CONFIG in shown
    assert stage.run("--version").stdout.startswith("mcp-tool 0.")


PAGE = """\
Usage: mcp-tool [OPTIONS] box__paint [FLAGS]

Paints.

Flags:
  --colour red|green|blue   which (required)
  --coats INTEGER           (at least 1, at most 9, default 2)
  --dry, --no-dry           true or false
  --walls TEXT ...          (at least 1 entries)
  --at JSON                 an object
    --at.x INTEGER          a whole number
    --at.y NUMBER           a number
    --at.label TEXT         text
  --mix NAME=VALUE ...      an object
  --till TEXT               (or null)
  '--odd name' TEXT         text
  --json TEXT               text
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
    assert "--json is a flag of the tool" in page
    assert json.loads(page.partition("Schema:\n")[2]) == schema
    assert stage.run("box__paint", "--help").stdout == page


@pytest.mark.parametrize("page", [(), ("box",), ("box__paint",)], ids=["program", "server", "tool"])
def test_every_option_and_flag_of_a_page_has_a_text(page: tuple[str, ...], stage: Stage) -> None:
    schema = object_of(
        bare={}, some=TEXT, all=object_of(x=NUMBER, y=BOOLEAN), till=any_of(TEXT, NULL), more=list_of(POINT)
    )
    stage.add("box", [{"name": "paint", "inputSchema": schema}])
    lines = stage.run(*page, "--help").stdout.splitlines()
    listed = [(line, after) for line, after in pairwise(lines) if re.match(r" +--", line)]
    assert listed
    assert [line for line, after in listed if "  " not in line.strip() and not after.startswith(" " * 28)] == []


def test_a_tool_with_an_argument_called_help_has_its_page_by_the_option_before_it(stage: Stage) -> None:
    stage.add("box", [{"name": "tool", "inputSchema": object_of(help=TEXT)}])
    stage.run("box__tool", "--help", "me")
    assert stage.calls() == ['{"help": "me"}']
    assert "--help TEXT" in stage.run("--help", "box__tool").stdout


EXAMPLES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "negative": {**NUMBER, "exclusiveMaximum": 0},
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


ROWS_OF_EXAMPLES = [Row(name, object_of(**{"odd name": EXAMPLES[name]}), [], {"odd name": 0}) for name in EXAMPLES]


@pytest.mark.parametrize("row", [*ROWS, *ROWS_OF_EXAMPLES], ids=lambda row: row.name)
def test_every_schema_has_an_example_that_is_valid(row: Row) -> None:
    schema = row.schema | {"required": list(row.arguments)}
    example = make_example(schema)
    assert example is not None and example.keys() >= row.arguments.keys()
    check_flag_arguments(example, schema)
    words = format_as_flags(example, schema)
    if words is not None:
        assert merge_arguments(parse_words(words, schema), schema, {}) == example


def test_the_commands_of_an_example_run_as_they_are_printed(stage: Stage) -> None:
    """By a shell, with arguments that need quoting, and the same arguments by flags and as JSON."""
    names = ("given", "dashes", "text_or_null", "object")
    schema = {"type": "object", "properties": {f"odd {name}": EXAMPLES[name] for name in names}}
    stage.add("box", [{"name": "tool", "inputSchema": schema | {"required": list(schema["properties"])}}])
    page = stage.run("box__tool", "--help").stdout
    printed = page.partition("\nExample:\n")[2].partition("\n\nSchema:")[0]
    commands = [f"mcp-tool{rest}" for rest in printed.split("  mcp-tool")[1:]]
    assert len(commands) == 2
    for command in commands:
        done = stage.shell(command)
        assert (done.returncode, done.stdout, done.stderr) == (0, "recorded\n", "")
    flags, whole = stage.calls()
    assert flags == whole


def test_no_example_is_printed_where_no_valid_value_is_found(stage: Stage) -> None:
    hard = {"type": "object", "properties": {"x": {**TEXT, "pattern": "^zq{7}$"}}, "required": ["x"]}
    stage.add("box", [{"name": "tool", "inputSchema": hard}])
    assert "\nExample: none" in stage.run("box__tool", "-h").stdout


def test_control_characters_of_a_server_are_escaped(stage: Stage) -> None:
    wild = {"type": "object", "properties": {"\x1b[31m": {**TEXT, "description": "\x1b]0;x\x07"}}}
    stage.add("box", [{"name": "tool\x1b[2J", "description": "\x1b[31mred", "inputSchema": wild}])
    assert "\x1b" not in stage.run("--help").stdout + stage.run("--help", "box__tool\x1b[2J").stdout


def test_all_servers_are_started_at_the_same_time(stage: Stage) -> None:
    """Each server answers only when the other one has started."""
    stage.add("one", [{"name": "tool"}], env={"WAITS_FOR": "two.record"})
    stage.add("two", [{"name": "tool"}], env={"WAITS_FOR": "one.record"})
    shown = stage.run("--help").stdout
    assert "one__tool" in shown and "two__tool" in shown
