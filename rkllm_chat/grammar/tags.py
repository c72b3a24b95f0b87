"""The arguments of a call that is written in tags: a text stands as it is, everything else as JSON. It knows no tools.

What is written is read back as `formats` reads it: the text between the tags is unescaped, and becomes another type
only where it is no text that the schema takes (`coercion.coerce`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from ..schemas import choices_of, kind_of, leaves_of, required_of
from .rules import GAP, Rules, literal, one_of, other_than, repeat
from .values import ESCAPE, Style, Values, counts, different, further_schema, members_of

END = "</argument>"
ENTITIES = '"&amp;" | "&lt;" | "&gt;"'
IN_TAGS = Style(escape, '"\\<&', f"{other_than(chr(34) + chr(92) + '<&')} | {ENTITIES} | {ESCAPE}")
"""JSON whose own brackets and ampersands are escaped."""
NAME_MARKS = "\"'<>&=\\ \t\r\n"


def tagged_arguments(rules: Rules, schema: Mapping[str, Any]) -> str | None:
    """`<argument name="x">value</argument>` for each, in the schema's order."""
    values = Values(rules, schema, IN_TAGS)
    return one_of(members(values, leaf) for leaf in values.arguments())


def members(values: Values, leaf: Mapping[str, Any]) -> str | None:
    parts: list[str] = []
    schemas = members_of(leaf)
    for name, schema in schemas.items():
        value = tagged_value(values, schema)
        if value is None and name in required_of(leaf):
            return None
        if value is not None:
            member = f"{literal(f'<argument name={quoteattr(name)}>')} {value} {GAP}"
            parts.append(member if name in required_of(leaf) else f"({member})?")
    further = tagged_value(values, further_schema(leaf))
    if further is not None:
        plain = values.rules.add(other_than(NAME_MARKS))
        name = values.rules.add(different(["", *schemas], NAME_MARKS, plain))
        parts.append(f'("<argument name=\\"" {name} "\\">" {further} {GAP})*')
    return " ".join(parts)


def tagged_value(values: Values, schema: Any) -> str | None:
    """A value with its end tag. Where any text is one, that is all that need be said."""
    leaves = leaves_of(schema, values.root)
    if any(takes_any_text(leaf) for leaf in leaves):
        return text_until(values.rules, END)
    return one_of(tagged_leaf(values, leaf) for leaf in leaves)


def takes_any_text(leaf: Mapping[str, Any]) -> bool:
    return kind_of(leaf) in ("string", "") and choices_of(leaf) is None and counts(leaf, "Length") == (0, None)


def tagged_leaf(values: Values, leaf: Mapping[str, Any]) -> str | None:
    choices = values.choices(leaf)
    if choices is not None:
        shown = (show_value(one) if isinstance(one, str) else values.write(one) for one in choices)
        return one_of(literal(f"{text}{END}") for text in shown)
    if kind_of(leaf) == "string":
        # a newline at either end is taken off again, and would not count
        char = f"{other_than('<&' + chr(10), controls=True)} | {ENTITIES}"
        return f"{repeat(values.rules, char, *counts(leaf, 'Length'))} {literal(END)}"
    found = values.leaf(leaf)
    return found and f"{found} {literal(END)}"


def show_value(text: str) -> str:
    """A text between tags, as `formats` writes it: what begins or ends in a newline gets one more around."""
    return escape(text) if text.strip("\n") == text else f"\n{escape(text)}\n"


def text_until(rules: Rules, end: str) -> str:
    """Any text up to and with an end tag, which is the first place where it stands; no `<!`, which begins a CDATA
    section. Each rule is what follows when so much of the tag has been written."""
    names = [f"until-{''.join(filter(str.isalpha, end))}-{size}" for size in range(len(end))]
    for size, name in enumerate(names):
        following = names[size + 1] if size + 1 < len(end) else ""
        wrong = other_than(f"<{end[size]}{'!' if size == 1 else ''}", controls=True)
        ways = [f"{literal(end[size])} {following}".strip(), f"{wrong} {names[0]}"]
        ways += [f'"<" {names[1]}'] if size else []
        rules.define(name, " | ".join(ways))
    return names[0]
