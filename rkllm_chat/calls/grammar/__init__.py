"""GRAMMARS: constrain what follows the beginning of a call, so that the call is always valid for its tool.

A row describes for a call format (a name in FORMATS) what triggers the grammar and how the call continues; calls
without a marker, which any model may write, have a rule of their own. The text before and between calls is not
constrained. `NoCalls` is the opposite: a reply that must not contain a call. Neither depends on an engine, except for
the notation of the grammars (GBNF).
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
from ..formats.common import ARGUMENT_KEYS
from ..formats.openers import UNMARKED_OPENERS, list_forbidden
from ..formats.tag_syntax import MINICPM5, QWEN, SEED
from ..model_families import resolve_formats
from ..schema.resolve import BudgetExceededError
from ..tool_names import shown_names
from .gbnf import GAP, SPACE, GrammarRules, literal, one_literal_of, spaced
from .json_values import GEMMA, JSON, JsonRules, JsonStyle, write_json
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
        gbnf: The rules of what may follow each trigger, up to the end of the call, in GBNF (llama.cpp).
        triggers: Maps each marker that begins a call to the rule that follows it, the usual one first.
        unmarked: The same for what begins a call without a marker (see `formats.openers`). It counts only where a call
            can be meant, and may still be data.
        is_behind_prose: Whether a call without a marker may follow prose.
        marks: The fixed texts of a call. A control token that is part of one is such a text, not a control.
        opening: Expression with which the reply must begin, after its thought if the prompt opens one; "" if it may
            begin with anything.
        is_whole_reply: Whether the reply ends with `opening`.
    """

    gbnf: str
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
    """How calls of one format are written.

    In `before`, `call`, `after` and `separator`, a blank stands for the white space that JSON has between its parts, a
    newline for a few blanks and newlines; both may be empty.

    Attributes:
        trigger: The marker that begins a call.
        call: A call, in which NAME and ARGUMENTS are replaced.
        arguments: Writes the arguments.
        write_name: Writes the name of a tool.
        before: What stands between the marker and the call.
        after: Text after the call.
        inner_trigger: The end of `before`, if the model may leave out everything else that stands around the call.
        separator: What separates calls, if several may follow one marker; "" if not.
        instead: Expression of what else may follow the marker and is no call.
    """

    trigger: str
    call: str
    arguments: JsonStyle | ArgumentTags
    write_name: Callable[[str], str]
    before: str = ""
    after: str = ""
    inner_trigger: str = ""
    separator: str = ""
    instead: str = ""

    @property
    def marks(self) -> tuple[str, ...]:
        """The fixed texts of a call."""
        texts = re.split("NAME|ARGUMENTS|[ \n]", f"{self.before} {self.call} {self.after}")
        return (*filter(None, texts), *self.arguments.marks)


_NAMED_OBJECT = '{ "name": NAME, "arguments": ARGUMENTS }'
_XML = ArgumentTags("<argument name={}>", "</argument>", (*SEED.value_openers, *SEED.call_closers))
_MINICPM5 = ArgumentTags("<param name={}>", "</param>", (*MINICPM5.value_openers, *MINICPM5.call_closers))
_QWEN3_CODER = ArgumentTags("<parameter={}>", "</parameter>", (*QWEN.value_openers, *QWEN.call_closers), is_raw=True)
_GLM45 = ArgumentTags("<arg_key>{}</arg_key>\n<arg_value>", "</arg_value>", is_raw=True)

GRAMMARS: dict[str, CallLayout] = {
    "json": CallLayout("[TOOL_CALL]", _NAMED_OBJECT, JSON, write_json, "\n", "\n[END_TOOL_CALL]"),
    "hermes": CallLayout("<tool_call>", _NAMED_OBJECT, JSON, write_json, "\n", "\n</tool_call>"),
    "nemotron": CallLayout("<TOOLCALL>", _NAMED_OBJECT, JSON, write_json, "\n[ ", " ]\n</TOOLCALL>", separator=", "),
    "llama3-function": CallLayout("<function=", "NAME>ARGUMENTS</function>", JSON, str),
    # prose of Functionary may contain >>>, but then no name follows
    "functionary": CallLayout(">>>", "NAMEARGUMENTS", JSON, "{}\n".format, instead='"all\\n" | [^A-Za-z0-9_]'),
    "functiongemma": CallLayout("<start_function_call>", "call:NAMEARGUMENTS<end_function_call>", GEMMA, str),
    "xml": CallLayout("<tool_call ", "name=NAME>\nARGUMENTS</tool_call>", _XML, _XML.write_name),
    "minicpm5": CallLayout("<function ", "name=NAME>\nARGUMENTS</function>", _MINICPM5, _MINICPM5.write_name),
    "glm4.5": CallLayout("<tool_call>", "NAME\nARGUMENTS</tool_call>", _GLM45, _GLM45.write_name),
    "qwen3-coder": CallLayout(
        *("<tool_call>", "NAME>\nARGUMENTS</function>", _QWEN3_CODER, _QWEN3_CODER.write_name),
        *("\n<function=", "\n</tool_call>", "<function="),
    ),
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
    if not shown:
        return None
    if _is_deeper(shown, _MAX_DEPTH):
        _log.debug(_UNCONSTRAINED, f"a schema is nested deeper than {_MAX_DEPTH} levels")
        return None
    try:
        return _write_grammar(json.dumps(shown), format_name, writes_unmarked)
    except (ValueError, TypeError, RecursionError) as error:
        _log.debug(_UNCONSTRAINED, repr(error))
        return None


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
    if _is_deeper(schema, _MAX_DEPTH):
        _log.debug(_UNCONSTRAINED, f"a schema is nested deeper than {_MAX_DEPTH} levels")
        return None
    try:
        return _write_reply_grammar(json.dumps(schema))
    except (ValueError, TypeError, RecursionError) as error:
        _log.debug(_UNCONSTRAINED, repr(error))
        return None


@lru_cache(maxsize=8)
def _write_reply_grammar(schema: str) -> CallGrammar | None:
    """Return the grammar of a reply by its schema, given as JSON."""
    rules = GrammarRules()
    try:
        values = JsonRules(rules, json.loads(schema), JSON)
        value = values.write_value(values.root)
    except BudgetExceededError as error:
        _log.debug(_UNCONSTRAINED, repr(error))
        return None
    if value is None:
        return None
    gbnf = rules.write(value)
    if len(gbnf) > _MAX_LENGTH:
        _log.debug(_UNCONSTRAINED, f"it would have {len(gbnf)} characters")
        return None
    return CallGrammar(gbnf, opening=f"{GAP} root", is_whole_reply=True)


def _is_deeper(value: Any, most: int) -> bool:
    """Tell whether lists and objects are nested in more than `most` levels."""
    level = [value]
    for _ in range(most):
        level = [inner for one in level for inner in _inside(one)]
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
    try:
        root = ""
        for name in dict.fromkeys((format_name, *_SHARED)):
            layout = GRAMMARS.get(name)
            if not layout or layout.trigger in triggers:
                continue
            suffix = "" if not triggers else f"-{name}"
            inner = rules.define(f"inner{suffix}", _write_call(layout, rules, schemas))
            further = f"({spaced(layout.separator)} {inner})*" if layout.separator else ""
            body = f"{spaced(layout.before)} {inner} {further} {spaced(layout.after)}"
            body = f"{body} | {layout.instead}" if layout.instead else body
            triggers[layout.trigger] = rules.define(f"call{suffix}", body)
            if layout.inner_trigger:
                triggers.setdefault(layout.inner_trigger, inner)
            root = root or triggers[layout.trigger]
            marks += layout.marks
        unmarked = rules.define("unmarked", _write_unmarked(rules, schemas))
        gbnf = rules.write(root)
    except (BudgetExceededError, ValueError, RecursionError) as error:
        _log.debug(_UNCONSTRAINED, repr(error))
        return None
    if len(gbnf) > _MAX_LENGTH:
        _log.debug(_UNCONSTRAINED, f"it would have {len(gbnf)} characters")
        return None
    openers = dict.fromkeys(UNMARKED_OPENERS, unmarked)
    return CallGrammar(gbnf, triggers, openers, writes_unmarked, tuple(dict.fromkeys(marks)))


def _write_call(layout: CallLayout, rules: GrammarRules, schemas: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the expression of one call, without what surrounds several of them."""
    before, _, after = layout.call.partition("NAME")
    between, _, end = after.partition("ARGUMENTS")
    calls = {
        layout.write_name(name): f"{spaced(between)} {_arguments_of(layout.arguments, rules, schema)}"
        for name, schema in schemas.items()
    }
    return f"{spaced(before)} {one_literal_of(calls)} {spaced(end)}"


def _write_unmarked(rules: GrammarRules, schemas: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the expression of what follows the opener of a call without a marker: from the name of the tool on."""
    keys = rules.add(" | ".join(literal(f'"{key}"') for key in ARGUMENT_KEYS))
    between = f'"," {SPACE} {keys} {SPACE} ":" {SPACE}'
    calls = {
        write_json(name)[1:]: f"{SPACE} {between} {_arguments_of(JSON, rules, schema)}"
        for name, schema in schemas.items()
    }
    return f'{one_literal_of(calls)} {SPACE} "}}"'


def _arguments_of(style: JsonStyle | ArgumentTags, rules: GrammarRules, schema: Mapping[str, Any]) -> str:
    """Return the expression of a tool's arguments; any object, if its schema allows nothing: its server decides."""
    write = style.write_arguments
    expression = write(rules, schema)
    return rules.add(write(rules, _ANY_OBJECT) or "" if expression is None else expression)
