"""Tests of the grammars of calls."""

from __future__ import annotations

from rkllm_chat.calls.grammar import GRAMMARS
from rkllm_chat.calls.grammar.tagged_values import ArgumentTags
from rkllm_chat.calls.model_families import FAMILIES

ASKED = {"xml", *(family.preferred_format for family in FAMILIES.values())}


def find_kind(format_name: str) -> tuple[object, ...]:
    """What the rules of a grammar depend on, besides the words of its marks."""
    row = GRAMMARS[format_name]
    layout, arguments = row.layout, row.arguments
    values: tuple[object, ...] = (type(layout.arguments), layout.is_object)
    if isinstance(arguments, ArgumentTags):
        tags = arguments.tags
        values = (tags.is_escaped, bool(tags.value_name), tags.opening.endswith("\n"))
    parts = (bool(layout.before), bool(layout.after), layout.separator is None, bool(layout.instead))
    return *values, bool(row.call_trigger), *parts


_SORTED = sorted(GRAMMARS, key=lambda name: (name not in ("json", "xml"), name not in ASKED, name))
KINDS = sorted({find_kind(name): name for name in reversed(_SORTED)}.values())
"""A format of each kind of layout, one that a family is asked for where there is one."""
