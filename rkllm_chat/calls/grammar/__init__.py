"""GRAMMARS: constrain what follows the marker of a call, so that the call is always valid for its tool.

A row describes for a call format (a name in FORMATS) what triggers the grammar and how the call continues. The text
before and between calls is not constrained. The grammars do not depend on an engine, except for their notation (GBNF).
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ...core.identity_cache import cache_by_identity
from ...core.messages import Tool
from ..formats.tag_syntax import MINICPM5, QWEN, SEED
from ..schema.resolve import BudgetExceededError
from ..tool_names import shown_names
from .gbnf import GAP, GrammarRules, literal, one_literal_of, spaced
from .json_values import GEMMA, JSON, JsonRules, JsonStyle, write_json
from .tagged_values import ArgumentTags

__all__ = ["GRAMMARS", "CallGrammar", "CallLayout", "build_call_grammar", "build_reply_grammar", "require_call"]

_MAX_LENGTH = 1024 * 1024
_MAX_DEPTH = 64
"""Levels of a schema; how many Python and llama.cpp can handle differs by version."""

_ANY_OBJECT = {"type": "object", "additionalProperties": True}
_log = logging.getLogger(__name__)

_UNCONSTRAINED = "There is no grammar; the reply is unconstrained: %s."


@dataclass(frozen=True)
class CallGrammar:
    """The grammar of calls, or of a whole reply.

    Attributes:
        trigger: The marker after which the grammar applies; "" if there is none.
        gbnf: What may follow it up to the end of the call, from the rule `root` on, in GBNF (llama.cpp).
        inner_trigger: A marker that may come without the other one; "" if there is none. The rule `inner` follows it.
        marks: The fixed texts of a call. A control token that is part of one is such a text, not a control.
        opening: Expression with which the reply must begin, after its thought if the prompt opens one; "" if it may
            begin with anything.
        is_whole_reply: Whether the reply ends with `opening`.
    """

    trigger: str
    gbnf: str
    inner_trigger: str = ""
    marks: tuple[str, ...] = ()
    opening: str = ""
    is_whole_reply: bool = False

    @property
    def rules(self) -> Mapping[str, str]:
        """The rule that applies after each marker."""
        rules = {self.trigger: "root", self.inner_trigger: "inner"}
        return {marker: rule for marker, rule in rules.items() if marker}


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


@cache_by_identity()
def build_call_grammar(tools: Iterable[Tool], format_name: str) -> CallGrammar | None:
    """Return the grammar of calls to these tools, under the names shown to the model.

    Args:
        tools: The tools that may be called.
        format_name: The row of `GRAMMARS`.

    Returns:
        None without tools, for a format without a grammar, or if the schemas are too large or too deep.
    """
    shown = {name: tool.schema for name, tool in shown_names(tools).items()}
    if not shown or format_name not in GRAMMARS:
        return None
    if _is_deeper(shown, _MAX_DEPTH):
        _log.debug(_UNCONSTRAINED, f"a schema is nested deeper than {_MAX_DEPTH} levels")
        return None
    try:
        return _write_grammar(json.dumps(shown), format_name)
    except (ValueError, TypeError, RecursionError) as error:
        _log.debug(_UNCONSTRAINED, repr(error))
        return None


def require_call(grammar: CallGrammar) -> CallGrammar:
    """Return the grammar of a reply that begins with a call."""
    return replace(grammar, opening=f"{GAP} {literal(grammar.trigger)} root")


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
    return CallGrammar("", gbnf, opening=f"{GAP} root", is_whole_reply=True)


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
def _write_grammar(shown: str, format_name: str) -> CallGrammar | None:
    """Return the grammar of tools given as JSON, name to schema; cached, because every reply needs it."""
    layout = GRAMMARS[format_name]
    before, _, after = layout.call.partition("NAME")
    between, _, end = after.partition("ARGUMENTS")
    rules = GrammarRules()
    try:
        calls = {
            layout.write_name(name): f"{spaced(between)} {_arguments_of(layout, rules, schema)}"
            for name, schema in json.loads(shown).items()
        }
        call = rules.define("inner", f"{spaced(before)} {one_literal_of(calls)} {spaced(end)}")
        further = f"({spaced(layout.separator)} {call})*" if layout.separator else ""
        root = f"{spaced(layout.before)} {call} {further} {spaced(layout.after)}"
        gbnf = rules.write(f"{root} | {layout.instead}" if layout.instead else root)
    except (BudgetExceededError, ValueError, RecursionError) as error:
        _log.debug(_UNCONSTRAINED, repr(error))
        return None
    if len(gbnf) > _MAX_LENGTH:
        _log.debug(_UNCONSTRAINED, f"it would have {len(gbnf)} characters")
        return None
    return CallGrammar(layout.trigger, gbnf, layout.inner_trigger, layout.marks)


def _arguments_of(layout: CallLayout, rules: GrammarRules, schema: Mapping[str, Any]) -> str:
    """Return the expression of a tool's arguments; any object, if its schema allows nothing: its server decides."""
    write = layout.arguments.write_arguments
    expression = write(rules, schema)
    return rules.add(write(rules, _ANY_OBJECT) or "" if expression is None else expression)
