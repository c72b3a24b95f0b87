"""GRAMMARS: constrain what follows the beginning of a call, so that the call is always valid for its tool.

What triggers the grammar of a call format (a name in FORMATS) and how the call continues follows from its layout; calls
without a marker, which any model may write, have a rule of their own. The text before and between calls is not
constrained. `NoCalls` is the opposite: a reply that must not contain a call. Neither depends on an engine, except for
the notation of the grammars (Lark, as llguidance reads it).
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from ...core.identity_cache import cache_by_identity
from ...core.messages import Tool
from ..formats import FORMATS, Format
from ..formats.common import ARGUMENT_KEYS
from ..formats.layout import Arguments, GemmaArguments, Layout, PythonArguments, dump
from ..formats.openers import UNMARKED_OPENERS, list_forbidden
from ..formats.tag_syntax import TagSyntax
from ..model_families import resolve_formats
from ..schema.resolve import BudgetExceededError
from ..tool_names import shown_names
from .json_values import JSON, PYTHON, JsonRules, JsonStyle, gemma_style
from .lark import GAP, SPACE, GrammarRules, literal, one_of, spaced
from .tagged_values import ArgumentTags

__all__ = [
    "GRAMMARS",
    "CallGrammar",
    "CallLayout",
    "NoCalls",
    "build_call_grammar",
    "build_reply_grammar",
    "forbid_calls",
    "require_call",
]

_MAX_LENGTH = 1024 * 1024
_MAX_DEPTH = 64
"""Levels of a schema; how many Python and llama.cpp can handle differs by version."""

_MAX_FURTHER_CALLS = 15
"""Calls behind the first one in a list or group, which a small model may continue without end."""

_ANY_OBJECT = {"type": "object", "additionalProperties": True}
_log = logging.getLogger(__name__)

_UNCONSTRAINED = "There is no grammar; the reply is unconstrained: %s."


@dataclass(frozen=True)
class NoCalls:
    """A reply that must not contain a call: it begins with a word or a number, after its thought if it has one.

    Attributes:
        openers: What it must not contain besides; white space between their parts does not count.
    """

    openers: tuple[str, ...]


@dataclass(frozen=True)
class CallGrammar:
    """The grammar of calls, or of a whole reply.

    Attributes:
        rules: The rules of what may follow each trigger, up to the end of the call (see `lark`).
        triggers: Maps each marker that begins a call to the expression that follows it, the usual one first.
        unmarked: The same for what begins a call without a marker (see `formats.openers`). It counts only where a call
            can be meant, and may still be data.
        is_behind_prose: Whether a call without a marker may follow prose.
        marks: The fixed texts of a call. A control token that is part of one is such a text, not a control.
        opening: Expression with which the reply must begin, after its thought if the prompt opens one; "" if it may
            begin with anything.
        is_whole_reply: Whether the reply ends with `opening`.
    """

    rules: str
    triggers: Mapping[str, str] = field(default_factory=dict[str, str])
    unmarked: Mapping[str, str] = field(default_factory=dict[str, str])
    is_behind_prose: bool = False
    marks: tuple[str, ...] = ()
    opening: str = ""
    is_whole_reply: bool = False

    @property
    def trigger(self) -> str:
        """The usual beginning of a call."""
        return next(iter(self.triggers or self.unmarked), "")


@dataclass(frozen=True)
class CallLayout:
    """How calls of one format are constrained.

    Attributes:
        layout: How they are written.
        arguments: Writes the arguments.
        trigger: The marker that begins them.
        call_trigger: The marker that begins one of them, without what surrounds it; "" if nothing does.
    """

    layout: Layout
    arguments: JsonStyle | ArgumentTags
    trigger: str
    call_trigger: str

    @property
    def marks(self) -> tuple[str, ...]:
        """The fixed texts of a call."""
        texts = re.split("NAME|ARGUMENTS|[ \n]", f"{self.layout.before} {self.layout.call} {self.layout.after}")
        return (*filter(None, texts), *self.arguments.marks)

    def spaced(self, text: str) -> str:
        """Return the expression of a fixed text, with free white space where a reader takes any."""
        return spaced(text.replace("{", "{ ").replace("}", " }")) if self.layout.is_object else spaced(text, "\n")

    def write_call(self, rules: GrammarRules, schemas: Mapping[str, Mapping[str, Any]]) -> str:
        """Return the expression of what follows `call_trigger` in one call."""
        before, _, after = self.layout.call[len(self.call_trigger) :].partition("NAME")
        between, _, end = after.partition("ARGUMENTS")
        line_end = "\n" * (self.layout.is_named and between.startswith("\n"))
        calls = one_of(
            f"{literal(self.layout.write_name(name) + line_end)} {self.spaced(between[len(line_end) :])} "
            f"{_arguments_of(self.arguments, rules, schema)}"
            for name, schema in schemas.items()
        )
        return f"{self.spaced(before)} {calls} {self.spaced(end)}"

    def write_calls(self, inner: str) -> str:
        """Return the expression of what follows `trigger`, given that of a call."""
        layout = self.layout
        if self.trigger == self.call_trigger:
            return f"{inner} | {layout.instead}" if layout.instead else inner
        call = f"{literal(self.call_trigger)} {inner}" if self.call_trigger else inner
        further = "" if layout.separator is None else f"({spaced(layout.separator)} {call}){{0,{_MAX_FURTHER_CALLS}}}"
        return f"{self.spaced(layout.before[len(self.trigger) :])} {call} {further} {self.spaced(layout.after)}"


def constrain(call_format: Format) -> CallLayout | None:
    """Return how the calls of a format are constrained; None if no marker begins them, or no grammar can hold them."""
    layout = call_format.layout
    trigger, arguments = _find_trigger(call_format, layout.before + layout.call), style_of(layout.arguments)
    if not trigger or not arguments:
        return None
    return CallLayout(layout, arguments, trigger, _find_trigger(call_format, layout.call) if layout.before else trigger)


def _find_trigger(call_format: Format, text: str) -> str:
    """Return the longest opener of a format that begins a text, with the character that ends its word."""
    opener = max((candidate for candidate in call_format.openers if text.startswith(candidate)), key=len, default="")
    return text[: len(opener) + opener[-1:].isalnum()]


def style_of(arguments: Arguments) -> JsonStyle | ArgumentTags | None:
    """Return how arguments are constrained; None if they cannot be.

    A tag with the type of its value, and one that ASCII does not hold, cannot be matched well byte by byte.
    """
    match arguments:
        case TagSyntax():
            return ArgumentTags(arguments) if arguments.value.isascii() and "TYPE" not in arguments.value else None
        case GemmaArguments():
            return gemma_style(arguments)
        case PythonArguments():
            return PYTHON
    return JSON if type(arguments) is Arguments else None


GRAMMARS: dict[str, CallLayout] = {
    name: found for name, call_format in FORMATS.items() if (found := constrain(call_format))
}


_SHARED = ("json", "hermes")
"""Formats that models write although they are asked for another one; their calls are the same object."""


@cache_by_identity()
def build_call_grammar(tools: Iterable[Tool], format_name: str, writes_unmarked: bool = False) -> CallGrammar | None:
    """Return the grammar of calls to these tools, under the names shown to the model.

    Args:
        tools: The tools that may be called.
        format_name: The format that the model is asked for.
        writes_unmarked: Whether its family writes calls without a marker, also behind prose.

    Returns:
        None without tools, or if the schemas are too large or too deep.
    """
    shown = {name: tool.schema for name, tool in shown_names(tools).items()}
    return _attempt(shown, lambda text: _write_grammar(text, format_name, writes_unmarked)) if shown else None


def forbid_calls(format_name: str, accepts: Sequence[str]) -> NoCalls:
    """Return the prohibition of calls.

    Args:
        format_name: The format that the model is asked for.
        accepts: The formats of its family.
    """
    return NoCalls(list_forbidden(resolve_formats(format_name, accepts)))


def require_call(grammar: CallGrammar) -> CallGrammar:
    """Return the grammar of a reply that begins with a call."""
    rule = (grammar.triggers or grammar.unmarked)[grammar.trigger]
    return replace(grammar, opening=f"{GAP} {literal(grammar.trigger)} {rule}")


def build_reply_grammar(schema: Mapping[str, Any]) -> CallGrammar | None:
    """Return the grammar of a reply that is one JSON value.

    Args:
        schema: The schema of the value.

    Returns:
        None if no value is valid, or if the schema is too large or too deep.
    """
    return _attempt(schema, _write_reply_grammar)


def _attempt(schema: Mapping[str, Any], write: Callable[[str], CallGrammar | None]) -> CallGrammar | None:
    """Return the grammar that is written of a schema, given as JSON; None if the schema is too large or too deep."""
    try:
        if _is_deeper(schema, _MAX_DEPTH):
            raise ValueError(f"a schema is nested deeper than {_MAX_DEPTH} levels")
        grammar = write(json.dumps(schema))
        if grammar and len(grammar.rules) > _MAX_LENGTH:
            raise ValueError(f"it would have {len(grammar.rules)} characters")
    except (BudgetExceededError, ValueError, TypeError, RecursionError) as error:
        _log.debug(_UNCONSTRAINED, repr(error))
        return None
    return grammar


@lru_cache(maxsize=8)
def _write_reply_grammar(schema: str) -> CallGrammar | None:
    """Return the grammar of a reply by its schema, given as JSON."""
    rules = GrammarRules("v")
    values = JsonRules(rules, json.loads(schema), JSON)
    value = values.write_value(values.root)
    return CallGrammar(rules.write(), opening=f"{GAP} {value}", is_whole_reply=True) if value else None


def _is_deeper(value: Any, most: int) -> bool:
    """Tell whether lists and objects are nested in more than `most` levels."""
    level = [value]
    for _ in range(most):
        level = [inner for schema in level for inner in _inside(schema)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()


@lru_cache(maxsize=8)
def _write_grammar(shown: str, format_name: str, writes_unmarked: bool) -> CallGrammar | None:
    """Return the grammar of tools given as JSON, name to schema; cached, because every reply needs it."""
    schemas: dict[str, Mapping[str, Any]] = json.loads(shown)
    rules = GrammarRules()
    triggers: dict[str, str] = {}
    marks: list[str] = []
    for name in dict.fromkeys((format_name, *_SHARED)):
        layout = constrain(FORMATS[name]) if name in FORMATS else None
        if not layout or layout.trigger in triggers:
            continue
        suffix = "" if not triggers else f"-{name}"
        inner = rules.define(f"inner{suffix}", layout.write_call(rules, schemas))
        triggers[layout.trigger] = rules.define(f"call{suffix}", layout.write_calls(inner))
        if layout.call_trigger:
            triggers.setdefault(layout.call_trigger, inner)
        marks += layout.marks
    unmarked = rules.define("unmarked", _write_unmarked(rules, schemas))
    openers = dict.fromkeys(UNMARKED_OPENERS, unmarked)
    return CallGrammar(rules.write(), triggers, openers, writes_unmarked, tuple(dict.fromkeys(marks)))


def _write_unmarked(rules: GrammarRules, schemas: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the expression of what follows the opener of a call without a marker: from the name of the tool on."""
    keys = rules.add(" | ".join(literal(f'"{key}"') for key in ARGUMENT_KEYS))
    between = f'"," {SPACE} {keys} {SPACE} ":" {SPACE}'
    calls = one_of(
        f"{literal(dump(name)[1:])} {SPACE} {between} {_arguments_of(JSON, rules, schema)}"
        for name, schema in schemas.items()
    )
    return f'{calls} {SPACE} "}}"'


def _arguments_of(style: JsonStyle | ArgumentTags, rules: GrammarRules, schema: Mapping[str, Any]) -> str:
    """Return the expression of a tool's arguments; any object, if its schema allows nothing: its server decides."""
    write = style.write_arguments
    expression = write(rules, schema)
    return rules.add(write(rules, _ANY_OBJECT) or "" if expression is None else expression)
