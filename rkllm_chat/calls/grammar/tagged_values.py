"""Convert JSON Schemas to GBNF for calls written as tags: text is written as itself, everything else as JSON.

The result is read back as `formats` reads it: the text between the tags is unescaped, unless the format is raw, loses
one line end at each side, and is converted to another type only if it is not a valid text (`schema.coerce`). Opening
tags in a text are allowed: the reader refuses a call in which a closing tag may be missing before one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from xml.sax.saxutils import escape

from ..formats.layout import dump
from ..formats.tag_syntax import VALUE_ENDS, TagSyntax
from ..schema.resolve import Node, Variant
from .gbnf import GAP, GrammarRules, can_match, literal, none_of, one_literal_of, one_of, repeat, spaced
from .json_values import (
    ESCAPE,
    JsonRules,
    JsonStyle,
    declared_members,
    name_except,
    size_limits,
    undeclared_schema,
)
from .text_values import TextStyle, write_text

_ENTITIES = '"&amp;" | "&lt;" | "&gt;"'
_CDATA, _END_CDATA = "<![CDATA[", TextStyle("]]>", controls=True, leads=("]]",))
_NAME_MARKS = "\"'<>&=\\ \t\r\n"
_LINE_END = '"\\n"'
_LEAD_LENGTH = 4
"""Characters of a closing tag that no text of limited length contains together."""


@dataclass(frozen=True)
class ArgumentTags:
    """How a format writes an argument: the constraint of its tags."""

    tags: TagSyntax

    @property
    def closing(self) -> str:
        """The tag behind the value."""
        return self.tags.value_closer

    @property
    def is_raw(self) -> bool:
        """Whether values are written without escaping."""
        return not self.tags.is_escaped

    @property
    def marks(self) -> tuple[str, ...]:
        """The fixed texts of an argument."""
        begin = self.tags.opening.rstrip("\n").split("KEY")
        return (*begin, self.closing, *(() if self.is_raw else (_CDATA, _END_CDATA.closing)))

    def write_arguments(self, rules: GrammarRules, schema: Mapping[str, Any]) -> str | None:
        """Return the expression of a tool's arguments, in the schema's order; None if no arguments are valid."""
        values = JsonRules(rules, schema, self._json)
        return one_of(self._members(values, variant) for variant in values.argument_variants())

    @cached_property
    def _json(self) -> JsonStyle:
        """JSON between the tags, in whose texts nothing ends the value."""
        if self.is_raw:
            style = replace(self._free_text, closing='"', escaped='"\\', escapes=ESCAPE, controls=False)
            style = replace(style, excluded=(self.closing, *style.excluded))
            return JsonStyle(dump, dump, '"', style)
        style = TextStyle('"', '"\\<&', f"{_ENTITIES} | {ESCAPE}")
        return JsonStyle(_write_escaped, _write_escaped, '"', style)

    @cached_property
    def _free_text(self) -> TextStyle:
        """A text of any length, up to the first closing tag."""
        further = [end for end in VALUE_ENDS if end in self.tags.value_ends]
        ends = tuple(f"{end} {tag}" for end in further for tag in self.tags.following)
        leads = dict.fromkeys(tag[:_LEAD_LENGTH] for tag in (self.closing, *ends))
        excluded = ends if self.is_raw else (*ends, _CDATA)
        unless = self.tags.value_ends
        return TextStyle(self.closing, controls=True, excluded=excluded, unless=unless, leads=tuple(leads))

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
            plain = values.rules.add(none_of(_NAME_MARKS))
            name = values.rules.add(name_except(["", *schemas], plain, _NAME_MARKS))
            quote = '"\\""' if self.tags.value_name else ""
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
            text = write_text(values.rules, self._free_text)
            return text if self.is_raw else f"({text} | {self._cdata(values.rules)})"
        return one_of(self._variant(values, variant) for variant in variants)

    def _cdata(self, rules: GrammarRules) -> str:
        return f"{literal(_CDATA)} {write_text(rules, _END_CDATA)} {literal(self.closing)}"

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
        plain = dict.fromkeys((text for text in texts if not is_trimmed or text.strip("\r\n") == text), "")
        with_line_ends = (literal(f"\n{text}\n{self.closing}") for text in texts if text not in plain)
        usual = self._beside_or_on_lines(values.rules.add(one_literal_of(plain))) if plain else None
        return one_of([usual, *with_line_ends])

    def _write_value(self, values: JsonRules, value: Any) -> str:
        if not isinstance(value, str):
            return values.style.write(value)
        return value if self.is_raw else escape(value)

    def _limited_text(self, rules: GrammarRules, least: int, most: int | None) -> str | None:
        """Return the expression of a text of limited length.

        The reader removes a line end at each side: the text stands on lines of its own, or has none at its ends.
        """
        if not self.tags.is_trimmed:
            return write_text(rules, replace(self._free_text, escaped="\r"), least, most)
        on_lines, beside = f"\n{self.closing}", literal(self.closing)
        if self.is_raw:
            excluded = (self.closing, *self._free_text.excluded)
            style = replace(self._free_text, closing=on_lines, escaped="\r", excluded=excluded)
            return f"{_LINE_END} {write_text(rules, style, least, most)}"
        style = TextStyle(on_lines, "<&\r", _ENTITIES, controls=True)
        char, edge = rules.add(style.write_char()), rules.add(style.write_char("\n"))
        inner = repeat(rules, char, max(least - 2, 0), most and most - 2)
        return one_of(
            [
                f"{_LINE_END} {write_text(rules, style, least, most)}",
                None if least else beside,
                f"{edge} {beside}" if least <= 1 and most != 0 else None,
                f"{edge} {inner} {edge} {beside}" if most is None or most > 1 else None,
            ]
        )


def _takes_any_text(variant: Variant) -> bool:
    is_text = variant.type in ("string", "") and variant.enum is None
    return is_text and size_limits(variant, "Length") == (0, None)


def _write_escaped(value: Any) -> str:
    return escape(dump(value))
