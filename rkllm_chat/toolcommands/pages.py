"""The pages that `mcp-tool --help` shows: of all tools, and of one. It asks no server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any

from ..clean import clean, clean_line
from ..flags import flag_of, is_boolean
from ..schemas import all_choices, child_of, choices_of, describe, kind_of, leaves_of, property_names, required_of, show
from ..schemas import whole as draw_together
from .examples import command_line, make_example, show_as_flags

COLUMN = 28
META = {"string": "TEXT", "integer": "INTEGER", "number": "NUMBER", "null": "null", "object": "JSON", "": "VALUE"}
LIMITS = {
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
READING = """\
A value is read as the schema wants it: text stays as it is written, a number stays exact. --x=VALUE and --x VALUE are
the same; --x:=JSON gives any flag its value as JSON (--x:=null), --x@=FILE the text of a file (- is standard input).
A list is repeated (--x A --x B) or JSON; what lies inside an object is --x.y VALUE or --x y=VALUE. What is not given is
not sent. All at once: --json OBJECT, --json-file FILE or --json-stdin, over which the flags win."""


def show_tool(name: str, tool: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    """All about one tool; `own` are our options that may stand behind its name."""
    schema = schema_of(tool)
    rows = [row for name in property_names(schema, schema) for row in flag_rows(name, schema)]
    hidden = [name for name in property_names(schema, schema) if name in own]
    options = f"Our options stand before the tool's name; --{hidden[0]} behind it is the tool's." if hidden else ""
    parts = [
        f"Usage: mcp-tool [OPTIONS] {name} [FLAGS]",
        str(tool.get("description") or tool.get("title") or "").strip(),
        "\n".join(["Flags:", *layout(rows)]) if rows else "It takes no arguments.",
        READING if rows else "",
        options,
        show_examples(name, schema),
        f"Schema:\n{json.dumps(schema, ensure_ascii=False, indent=2)}",
    ]
    return clean("\n\n".join(part for part in parts if part))


def schema_of(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    schema = tool.get("inputSchema")
    return schema if isinstance(schema, Mapping) else {}


def show_examples(name: str, schema: Mapping[str, Any]) -> str:
    """Commands that run as they are printed."""
    arguments = make_example(schema)
    if arguments is None:
        return "Example: none, for no values were found that this schema takes."
    words = show_as_flags(arguments, schema)
    lines = [command_line("mcp-tool", name, *words)] if words is not None else []
    if arguments or words is None:
        whole = json.dumps(arguments, ensure_ascii=False)
        lines.append(command_line("mcp-tool", "--json", whole, name))
    return "\n".join(["Example:", *(f"  {line}" for line in lines)])


def flag_rows(name: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The rows of one argument: its flag, and one for each name inside it."""
    child = child_of(schema, name, schema)
    required = name in required_of(draw_together(schema, schema))
    yield flag_usage((name,), child, schema), note(child, schema, required)
    for inner in property_names(child, schema):
        grandchild = child_of(child, inner, schema)
        yield f"  {flag_usage((name, inner), grandchild, schema)}", note(grandchild, schema, False)


def flag_usage(path: tuple[str, ...], schema: Any, root: Mapping[str, Any]) -> str:
    leaves = leaves_of(schema, root)
    flag = command_line(flag_of(path)) if flag_of(path).isprintable() else clean_line(flag_of(path))
    if all(is_boolean(leaf) or kind_of(leaf) == "null" for leaf in leaves) and any(map(is_boolean, leaves)):
        return f"{flag}, {flag.replace('--', '--no-', 1)}"
    words = list(dict.fromkeys(meta(leaf, root) for leaf in leaves if kind_of(leaf) != "null"))
    return f"{flag} {'|'.join(words) or 'null'}"


def meta(leaf: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    choices = choices_of(leaf)
    if choices is not None:
        words = "|".join(clean_line(show(choice)) for choice in choices)
        return words if len(words) < 40 else "CHOICE"
    if kind_of(leaf) == "array":
        items = dict.fromkeys(meta(item, root) for item in leaves_of(leaf.get("items"), root))
        return f"{'|'.join(items)} ..."
    if kind_of(leaf) == "object" and not property_names(leaf, root):
        return "NAME=VALUE ..."
    return META.get(kind_of(leaf), "true|false")


def note(schema: Any, root: Mapping[str, Any], required: bool) -> str:
    """What the server says of an argument, and what its schema adds."""
    found = draw_together(schema, root)
    leaves = leaves_of(schema, root)
    facts = ["required"] if required else []
    if len(all_choices(schema, root)) and "CHOICE" in flag_usage(("x",), schema, root):
        facts.append(describe(schema, root))
    facts += [
        text.format(show(leaf[word])) for leaf in leaves for word, text in LIMITS.items() if is_worth_saying(leaf, word)
    ]
    if any(kind_of(leaf) == "null" for leaf in leaves) and len(leaves) > 1:
        facts.append("or null")
    if "default" in found:
        facts.append(f"default {json.dumps(found['default'], ensure_ascii=False)}")
    said = clean_line(str(found.get("description") or found.get("title") or ""))
    return " ".join(
        part for part in (said, f"({clean_line(', '.join(dict.fromkeys(facts)))})" if facts else "") if part
    )


def is_worth_saying(leaf: Mapping[str, Any], word: str) -> bool:
    return isinstance(leaf.get(word), str | int | float) and not isinstance(leaf.get(word), bool)


def layout(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Two columns, as wide as the terminal."""
    wide = max(60, min(120, get_terminal_size().columns)) - COLUMN
    lines: list[str] = []
    for left, right in rows:
        notes = wrap(right, wide) or [""]
        if len(left) + 4 > COLUMN:
            lines.append(f"  {left}")
        else:
            lines.append(f"  {left:<{COLUMN - 2}}{notes.pop(0)}".rstrip())
        lines += [f"{'':{COLUMN}}{line}".rstrip() for line in notes if line]
    return lines


def show_server(name: str, tools: Sequence[Mapping[str, Any]]) -> list[str]:
    """A server's tools, a line each."""
    names = [f"{name}__{clean_line(str(tool['name']))}" for tool in tools]
    said = [first_sentence(str(tool.get("description") or tool.get("title") or "")) for tool in tools]
    wide = max(60, min(120, get_terminal_size().columns))
    column = min(max((len(name) for name in names), default=0), 40)
    return [shorten(f"  {left:<{column}}  {right}".rstrip(), wide) for left, right in zip(names, said, strict=True)]


def first_sentence(text: str) -> str:
    return clean_line(text.strip().partition("\n")[0])


def shorten(line: str, wide: int) -> str:
    return line if len(line) <= wide else f"{line[: wide - 1]}…"
