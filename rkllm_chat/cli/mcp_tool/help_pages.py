"""Format the help of `mcp-tool`: one line per tool of a server, or all about one tool. No server is queried here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any

from ...calls.schema.resolve import (
    all_enum_values,
    enum_values,
    list_variants,
    member_schema,
    property_names,
    required_of,
    type_of,
)
from ...calls.schema.resolve import expand_schema as merge_schema
from ...calls.schema.wording import describe_type, format_value
from ...core.sanitize import sanitize_for_terminal, sanitize_line
from .examples import format_as_flags, make_example, quote_command
from .flags import format_flag, is_boolean

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


def format_tool_help(name: str, tool: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    """Return the help of one tool.

    Args:
        name: The tool as SERVER__TOOL.
        tool: The server's description of the tool.
        own: Options of `mcp-tool` that are recognized after the tool's name.
    """
    schema = _schema_of(tool)
    rows = [row for name in property_names(schema, schema) for row in _flag_rows(name, schema)]
    hidden = [name for name in property_names(schema, schema) if name in own]
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


def _flag_rows(name: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the help rows of one argument and of the properties inside it."""
    property_schema = member_schema(schema, name, schema)
    required = name in required_of(merge_schema(schema, schema))
    yield _flag_usage((name,), property_schema, schema), _describe_argument(property_schema, schema, required)
    for inner in property_names(property_schema, schema):
        inner_schema = member_schema(property_schema, inner, schema)
        yield f"  {_flag_usage((name, inner), inner_schema, schema)}", _describe_argument(inner_schema, schema, False)


def _flag_usage(path: tuple[str, ...], schema: Any, root: Mapping[str, Any]) -> str:
    """Return the flag of a path with a placeholder for its value."""
    variants = list_variants(schema, root)
    flag = quote_command(format_flag(path)) if format_flag(path).isprintable() else sanitize_line(format_flag(path))
    if all(is_boolean(variant) or type_of(variant) == "null" for variant in variants) and any(
        map(is_boolean, variants)
    ):
        return f"{flag}, {flag.replace('--', '--no-', 1)}"
    placeholders = list(
        dict.fromkeys(_placeholder(variant, root) for variant in variants if type_of(variant) != "null")
    )
    return f"{flag} {'|'.join(placeholders) or 'null'}"


def _placeholder(variant: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    """Return the placeholder for the value of a variant of a schema."""
    choices = enum_values(variant)
    if choices is not None:
        alternatives = "|".join(sanitize_line(format_value(choice)) for choice in choices)
        return alternatives if len(alternatives) < 40 else "CHOICE"
    if type_of(variant) == "array":
        items = dict.fromkeys(_placeholder(item, root) for item in list_variants(variant.get("items"), root))
        return f"{'|'.join(items)} ..."
    if type_of(variant) == "object" and not property_names(variant, root):
        return "NAME=VALUE ..."
    return _PLACEHOLDERS.get(type_of(variant), "true|false")


def _describe_argument(schema: Any, root: Mapping[str, Any], required: bool) -> str:
    """Describe an argument: the server's description, then the constraints of its schema."""
    merged = merge_schema(schema, root)
    variants = list_variants(schema, root)
    constraints = ["required"] if required else []
    if len(all_enum_values(schema, root)) and "CHOICE" in _flag_usage(("x",), schema, root):
        constraints.append(describe_type(schema, root))
    constraints += [
        text.format(format_value(variant[keyword]))
        for variant in variants
        for keyword, text in _CONSTRAINTS.items()
        if _has_plain_value(variant, keyword)
    ]
    if any(type_of(variant) == "null" for variant in variants) and len(variants) > 1:
        constraints.append("or null")
    if "default" in merged:
        constraints.append(f"default {json.dumps(merged['default'], ensure_ascii=False)}")
    description = sanitize_line(str(merged.get("description") or merged.get("title") or ""))
    return " ".join(
        part
        for part in (description, f"({sanitize_line(', '.join(dict.fromkeys(constraints)))})" if constraints else "")
        if part
    )


def _has_plain_value(variant: Mapping[str, Any], keyword: str) -> bool:
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
        _shorten(f"  {left:<{column}}  {right}".rstrip(), terminal_width)
        for left, right in zip(names, descriptions, strict=True)
    ]


def _first_line(text: str) -> str:
    """Return the first line of a description."""
    return sanitize_line(text.strip().partition("\n")[0])


def _shorten(line: str, width: int) -> str:
    """Cut a line to a width."""
    return line if len(line) <= width else f"{line[: width - 1]}…"
