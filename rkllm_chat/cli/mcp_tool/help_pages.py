"""Format the help of `mcp-tool`: one line per tool of a server, or all about one tool. No server is queried here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any

from ...calls.schema.resolve import Node, Variant, required_of
from ...calls.schema.wording import describe_type, format_value
from ...core.sanitize import sanitize_for_terminal, sanitize_line, truncate
from .examples import format_as_flags, make_example, quote_command
from .flags import format_flag, is_boolean, list_properties
from .options import AFTER_TOOL

_COLUMN_WIDTH = 28
_PLACEHOLDERS = {
    "string": "TEXT",
    "integer": "INTEGER",
    "number": "NUMBER",
    "null": "null",
    "object": "JSON",
    "": "VALUE",
}
_CONSTRAINTS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} entries",
    "maxItems": "at most {} entries",
    "pattern": "pattern {}",
    "format": "{}",
}
_VALUE_SYNTAX = """\
Values are converted by the schema: strings stay as written, numbers stay exact. --x=VALUE and --x VALUE are the same;
--x:=JSON sets any flag to a JSON value (--x:=null), --x@=FILE to the text of a file (- is standard input). Repeat it
for a list (--x A --x B) or pass JSON; set a property of an object with --x.y VALUE or --x y=VALUE. Flags that are not
given are not sent. For all arguments at once: --json OBJECT, --json-file FILE or --json-stdin; flags override them."""


def format_tool_help(name: str, tool: Mapping[str, Any]) -> str:
    """Return the help of one tool.

    Args:
        name: The tool as SERVER__TOOL.
        tool: The server's description of the tool.
    """
    schema = _schema_of(tool)
    root = Node(schema)
    required = {(name,) for name in required_of(root.merged())}
    rows = [
        (f"{'  ' * (len(path) - 1)}{_flag_usage(path, node)}", _describe_argument(node, path in required))
        for path, node in list_properties(root)
    ]
    hidden = [name for name in root.property_names() if f"--{name}" in AFTER_TOOL]
    options = (
        f"Options of mcp-tool come before the tool's name; after it, --{hidden[0]} is a flag of the tool."
        if hidden
        else ""
    )
    parts = [
        f"Usage: mcp-tool [OPTIONS] {name} [FLAGS]",
        str(tool.get("description") or tool.get("title") or "").strip(),
        "\n".join(["Flags:", *format_columns(rows)]) if rows else "The tool takes no arguments.",
        _VALUE_SYNTAX if rows else "",
        options,
        _show_examples(name, schema),
        f"Schema:\n{json.dumps(schema, ensure_ascii=False, indent=2)}",
    ]
    return sanitize_for_terminal("\n\n".join(part for part in parts if part))


def _schema_of(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the input schema of a tool; empty if the server sent none."""
    schema = tool.get("inputSchema")
    return schema if isinstance(schema, Mapping) else {}


def _show_examples(name: str, schema: Mapping[str, Any]) -> str:
    """Return example commands that run as printed."""
    arguments = make_example(schema)
    if arguments is None:
        return "Example: none; no valid values were found for this schema."
    words = format_as_flags(arguments, schema)
    lines = [quote_command("mcp-tool", name, *words)] if words is not None else []
    if arguments or words is None:
        arguments_json = json.dumps(arguments, ensure_ascii=False)
        lines.append(quote_command("mcp-tool", "--json", arguments_json, name))
    return "\n".join(["Example:", *(f"  {line}" for line in lines)])


def _flag_usage(path: tuple[str, ...], node: Node) -> str:
    """Return the flag of a path with a placeholder for its value."""
    variants = node.variants()
    flag = quote_command(format_flag(path)) if format_flag(path).isprintable() else sanitize_line(format_flag(path))
    given = [variant for variant in variants if variant.type != "null"]
    if any(map(is_boolean, variants)) and all(map(is_boolean, given)):
        return f"{flag}, {flag.replace('--', '--no-', 1)}"
    return f"{flag} {'|'.join(dict.fromkeys(map(_placeholder, given))) or 'null'}"


def _placeholder(variant: Variant) -> str:
    """Return the placeholder for the value of a variant of a schema."""
    if variant.enum is not None:
        alternatives = "|".join(sanitize_line(format_value(choice)) for choice in variant.enum)
        return alternatives if len(alternatives) < 40 else "CHOICE"
    if variant.type == "array":
        items = dict.fromkeys(map(_placeholder, variant.part(variant.get("items")).variants()))
        return f"{'|'.join(items)} ..."
    if variant.type == "object" and not variant.property_names():
        return "NAME=VALUE ..."
    return _PLACEHOLDERS.get(variant.type, "true|false")


def _describe_argument(node: Node, required: bool) -> str:
    """Describe an argument: the server's description, then the constraints of its schema; without both, its type."""
    merged, variants = node.merged(), node.variants()
    constraints = ["required"] if required else []
    if node.choices() and "CHOICE" in _flag_usage(("x",), node):
        constraints.append(describe_type(node))
    constraints += [
        text.format(format_value(variant.get(keyword)))
        for variant in variants
        for keyword, text in _CONSTRAINTS.items()
        if _has_plain_value(variant, keyword)
    ]
    if any(variant.type == "null" for variant in variants) and len(variants) > 1:
        constraints.append("or null")
    if "default" in merged:
        constraints.append(f"default {json.dumps(merged['default'], ensure_ascii=False)}")
    description = sanitize_line(str(merged.get("description") or merged.get("title") or ""))
    notes = f"({sanitize_line(', '.join(dict.fromkeys(constraints)))})" if constraints else ""
    return " ".join(filter(None, (description, notes))) or sanitize_line(describe_type(node))


def _has_plain_value(variant: Variant, keyword: str) -> bool:
    """Return whether a schema keyword has a value that the help can show."""
    return isinstance(variant.get(keyword), str | int | float) and not isinstance(variant.get(keyword), bool)


def format_columns(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Format rows in two columns, as wide as the terminal."""
    text_width = max(60, min(120, get_terminal_size().columns)) - _COLUMN_WIDTH
    lines: list[str] = []
    for left, right in rows:
        notes = wrap(right, text_width) or [""]
        if len(left) + 4 > _COLUMN_WIDTH:
            lines.append(f"  {left}")
        else:
            lines.append(f"  {left:<{_COLUMN_WIDTH - 2}}{notes.pop(0)}".rstrip())
        lines += [f"{'':{_COLUMN_WIDTH}}{line}".rstrip() for line in notes if line]
    return lines


def format_server_tools(name: str, tools: Sequence[Mapping[str, Any]]) -> list[str]:
    """Format the tools of a server, one line each."""
    names = [f"{name}__{sanitize_line(str(tool['name']))}" for tool in tools]
    descriptions = [_first_line(str(tool.get("description") or tool.get("title") or "")) for tool in tools]
    terminal_width = max(60, min(120, get_terminal_size().columns))
    column = min(max((len(name) for name in names), default=0), 40)
    return [
        truncate(f"  {left:<{column}}  {right}".rstrip(), terminal_width)
        for left, right in zip(names, descriptions, strict=True)
    ]


def _first_line(text: str) -> str:
    return sanitize_line(text.strip().partition("\n")[0])
