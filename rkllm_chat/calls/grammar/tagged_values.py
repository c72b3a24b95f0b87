"""Convert JSON Schemas to rules for calls written as tags: text is written as itself, everything else as JSON.

The result is read back as `formats` reads it: the text between the tags is unescaped, unless the format is raw, loses
one line end at each side, and is converted to another type only if it is not a valid text (`schema.coerce`). A text
ends at its first closing tag.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from xml.sax.saxutils import escape

from ..formats.layout import dump
from ..formats.tag_syntax import TagSyntax
from ..schema.resolve import Node, Variant
from .json_values import (
    ESCAPE,
    JsonRules,
    JsonStyle,
    declared_members,
    size_limits,
    undeclared_schema,
)
from .lark import ANY, GAP, GrammarRules, any_name, can_match, literal, one_of, repeat, spaced

_ENTITIES = '"&amp;" | "&lt;" | "&gt;"'
_NAME = r"""[^"'<>&=\\ \t\r\n]+"""
_LINE_END = '"\\n"'
_BLANKS = r"/\s*/"
_CDATA = "<![CDATA["


@dataclass(frozen=True)
class ArgumentTags:
    """How a format writes an argument: the constraint of its tags."""

    tags: TagSyntax

    @property
    def closing(self) -> str:
        """The tag behind the value."""
        return self.tags.value_closer

    @property
    def marks(self) -> tuple[str, ...]:
        """The fixed texts of an argument."""
        return (*self.tags.opening.rstrip("\n").split("KEY"), self.closing)

    def write_arguments(self, rules: GrammarRules, schema: Mapping[str, Any]) -> str | None:
        """Return the expression of a tool's arguments, in the schema's order; None if no arguments are valid."""
        values = JsonRules(rules, schema, self._json)
        return one_of(self._members(values, variant) for variant in values.argument_variants())

    @cached_property
    def _json(self) -> JsonStyle:
        """JSON between the tags, in whose texts nothing ends the value."""
        if not self.tags.is_escaped:
            return JsonStyle(dump, dump, excluded=self.closing)
        char = rf'(/[^"\\<&\x00-\x1F]/ | {_ENTITIES} | {ESCAPE})'
        return JsonStyle(_write_escaped, _write_escaped, char=char)

    def _members(self, values: JsonRules, variant: Variant) -> str | None:
        parts: list[str] = []
        schemas = declared_members(variant)
        for name, schema in schemas.items():
            value = self._value(values, variant.part(schema)) if self._can_carry(name) else None
            if value is None and name in variant.required:
                return None
            if value is not None:
                member = f"{self._opening(literal(self.tags.write_key(name)))} {value} {GAP}"
                parts.append(member if name in variant.required else f"({member})?")
        additional = self._value(values, variant.part(undeclared_schema(variant)))
        if additional is not None:
            quote = '"\\""' if self.tags.value_name else ""
            name = any_name(values.rules, _NAME, schemas)
            parts.append(f"({self._opening(f'{quote} {name} {quote}')} {additional} {GAP})*")
        return " ".join(parts)

    def _opening(self, name: str) -> str:
        """Return the expression of the text before a value, given that of its name."""
        before, _, after = self.tags.opening.rstrip("\n").partition("KEY")
        return f"{literal(before)} {name} {spaced(after)}"

    def _can_carry(self, name: str) -> bool:
        """Tell whether the name of an argument is read back as it is written."""
        is_bare_name = name.strip().strip("\"'") == name and not {*name} & {*"<>"}
        return can_match(name) and (bool(self.tags.value_name) or is_bare_name)

    def _value(self, values: JsonRules, node: Node) -> str | None:
        """Return the expression of a value with its end tag; any text, if the schema allows any text."""
        variants = node.variants()
        if any(map(_takes_any_text, variants)):
            return self._any_text(values.rules)
        return one_of(self._variant(values, variant) for variant in variants)

    def _any_text(self, rules: GrammarRules) -> str | None:
        """Return the expression of a text with its end tag; where there are entities, it may be a CDATA section."""
        tags, closing = self.tags, literal(self.closing)
        wrong, following = (" | ".join(map(literal, ends)) for ends in (tags.value_ends[1:], tags.following))
        misread = [f"({wrong}) {_BLANKS} ({following})"] if wrong else []
        misread += [literal(_CDATA)] if tags.is_escaped else []
        section = f"{literal(_CDATA)} {ANY}* {literal(']]>')} {closing}"
        texts = [f"({ANY}* {closing}) & ~({ANY}* ({' | '.join(misread)}) {ANY}*)" if misread else f"{ANY}* {closing}"]
        return one_of(rules.add_terminal(text, is_lazy=True) for text in texts + [section] * tags.is_escaped)

    def _variant(self, values: JsonRules, variant: Variant) -> str | None:
        choices = values.allowed_values(variant)
        if choices is not None:
            return self._one_of(values, choices)
        if variant.type == "string":
            return self._limited_text(values.rules, *size_limits(variant, "Length"))
        expression = values.variant(variant)
        return expression and self._beside_or_on_lines(values.rules.add(expression))

    def _beside_or_on_lines(self, value: str) -> str:
        """Return the expression of a value between the tags, or on a line of its own between them."""
        if not self.tags.is_trimmed:
            return f"{value} {literal(self.closing)}"
        return f"({value} | {_LINE_END} {value} {_LINE_END}) {literal(self.closing)}"

    def _one_of(self, values: JsonRules, choices: list[Any]) -> str | None:
        """Return the expression of one of several values, on a line of its own or not."""
        texts = [self._write_value(values, choice) for choice in choices]
        texts = [text for text in texts if can_match(text) and self.closing not in text and not text.endswith("\r")]
        is_trimmed = self.tags.is_trimmed
        plain = [literal(text) for text in texts if not is_trimmed or text.strip("\r\n") == text]
        with_line_ends = (literal(f"\n{text}\n{self.closing}") for text in texts if literal(text) not in plain)
        usual = self._beside_or_on_lines(values.rules.add(one_of(plain) or "")) if plain else None
        return one_of([usual, *with_line_ends])

    def _write_value(self, values: JsonRules, value: Any) -> str:
        if not isinstance(value, str):
            return values.style.write(value)
        return escape(value) if self.tags.is_escaped else value

    def _limited_text(self, rules: GrammarRules, least: int, most: int | None) -> str | None:
        """Return the expression of a text of limited length.

        The reader removes a line end at each side: the text stands on lines of its own, or has none at its ends.
        """
        char = rf"(/[^<&\r]/ | {_ENTITIES})" if self.tags.is_escaped else r"/[^\r]/"
        text, closing = rules.add_terminal(repeat(char, least, most)), literal(self.closing)
        if not self.tags.is_trimmed:
            return rules.add_terminal(f"{text} {closing}", is_lazy=True)
        on_lines = rules.add_terminal(rf'"\n" {text} "\n" {closing}', is_lazy=True)
        if not self.tags.is_escaped:
            return on_lines
        beside = rules.add_terminal(rf"{text} & ~/\n(?s:.*)/ & ~/(?s:.*)\n/")
        return one_of([on_lines, rules.add_terminal(f"{beside} {closing}", is_lazy=True)])


def _takes_any_text(variant: Variant) -> bool:
    is_text = variant.type in ("string", "") and variant.enum is None
    return is_text and size_limits(variant, "Length") == (0, None)


def _write_escaped(value: Any) -> str:
    return escape(dump(value))
