"""GRAMMARS: what may follow the marker of a call, so that it is always one that its tool takes. It knows no engine.

A row says for a form of calls (a name in FORMATS) what begins it and how it goes on. The text before a call, and
between two calls, is no business of a grammar.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from xml.sax.saxutils import quoteattr

from ..memo import by_identity
from ..messages import Tool
from ..names import shown_names
from ..schemas import TooCostlyError
from .rules import GAP, SPACE, Rules, choose, literal, one_of
from .tags import tagged_arguments
from .values import JSON, Values

LARGEST = 512 * 1024
DEEPEST = 64
"""Levels of a schema; how many Python and llama.cpp bear differs by version."""

ANY_OBJECT = {"type": "object", "additionalProperties": True}
log = logging.getLogger(__name__)

UNCONSTRAINED = "There is no grammar for the calls, which go unconstrained: %s."
WHITE = {" ": SPACE, "\n": GAP}


@dataclass(frozen=True)
class CallGrammar:
    """`gbnf`: what may stand behind `trigger` up to the end of the call, from the rule `root` on (llama.cpp, GBNF)."""

    trigger: str
    gbnf: str


@dataclass(frozen=True)
class Layout:
    """How a call of one form is written. In `text`, what follows the trigger, NAME and ARGUMENTS are those of a tool, a
    blank is what JSON has between its parts, and a newline a few blanks and newlines; both may be missing."""

    trigger: str
    text: str
    name: Callable[[str], str]
    arguments: Callable[[Rules, Mapping[str, Any]], str | None]


def json_text(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def json_arguments(rules: Rules, schema: Mapping[str, Any]) -> str | None:
    values = Values(rules, schema, JSON)
    return one_of(values.object(leaf) for leaf in values.arguments())


NAMED_OBJECT = '\n{ "name": NAME, "arguments": ARGUMENTS }\n'
GRAMMARS: dict[str, Layout] = {
    "json": Layout("[TOOL_CALL]", f"{NAMED_OBJECT}[END_TOOL_CALL]", json_text, json_arguments),
    "hermes": Layout("<tool_call>", f"{NAMED_OBJECT}</tool_call>", json_text, json_arguments),
    "llama3-function": Layout("<function=", "NAME>ARGUMENTS</function>", str, json_arguments),
    "xml": Layout("<tool_call ", "name=NAME>\nARGUMENTS</tool_call>", quoteattr, tagged_arguments),
}


@by_identity()
def call_grammar(tools: Iterable[Tool], form: str) -> CallGrammar | None:
    """The grammar of the calls of these tools, under the names that the model is shown.

    None where there is no tool, the form has no row, or the schemas are too large or too deep for one.
    """
    shown = {name: tool.schema for name, tool in shown_names(tools).items()}
    if not shown or form not in GRAMMARS:
        return None
    if is_deeper(shown, DEEPEST):
        log.debug(UNCONSTRAINED, f"a schema is nested deeper than {DEEPEST} levels")
        return None
    try:
        return write_grammar(json.dumps(shown), form)
    except (ValueError, TypeError, RecursionError) as error:
        log.debug(UNCONSTRAINED, repr(error))
        return None


def is_deeper(value: Any, most: int) -> bool:
    """Whether lists and objects are nested in more than so many levels."""
    level = [value]
    for _ in range(most):
        level = [inner for one in level for inner in inside(one)]
        if not level:
            return False
    return True


def inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()


@lru_cache(maxsize=8)
def write_grammar(shown: str, form: str) -> CallGrammar | None:
    """The grammar of tools given as JSON, name to schema, written once: it is asked for before every reply."""
    layout = GRAMMARS[form]
    before, _, after = layout.text.partition("NAME")
    between, _, behind = after.partition("ARGUMENTS")
    rules = Rules()
    try:
        calls = {
            layout.name(name): f"{spaced(between)} {arguments_of(layout, rules, schema)}"
            for name, schema in json.loads(shown).items()
        }
        gbnf = rules.write(f"{spaced(before)} {choose(calls)} {spaced(behind)}")
    except (TooCostlyError, ValueError, RecursionError) as error:
        log.debug(UNCONSTRAINED, repr(error))
        return None
    if len(gbnf) > LARGEST:
        log.debug(UNCONSTRAINED, f"it would have {len(gbnf)} characters")
        return None
    return CallGrammar(layout.trigger, gbnf)


def arguments_of(layout: Layout, rules: Rules, schema: Mapping[str, Any]) -> str:
    """The arguments of one tool; any, where its schema lets nothing through: then its server decides."""
    expression = layout.arguments(rules, schema)
    return rules.add(layout.arguments(rules, ANY_OBJECT) or "" if expression is None else expression)


def spaced(text: str) -> str:
    """A part of a layout as an expression."""
    return " ".join(WHITE.get(part) or literal(part) for part in re.split("([ \n])", text) if part)
