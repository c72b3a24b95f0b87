"""How a format writes a call: literals from which its reader, its writer and its grammar follow.

In a literal, NAME stands for the name of the tool, ARGUMENTS for its arguments, KEY and VALUE for one of them, and TYPE
and IS_TEXT for its type where the format tells it. How the arguments are written is the kind of a layout: one JSON
object, Python, Gemma's notation, or tags with a value in each (see `tag_syntax`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..json_repair import RESERVED_WORDS
from ..python_parser import write_python_call

MARK = r"<[^<>]*>|✿\w+✿|\[[A-Z_]{3,}\]"
"""Pattern of a literal that no text between such literals contains."""


def find_marks(text: str) -> tuple[str, ...]:
    """Return the literals that a text consists of: marks, or words between white space if it has none."""
    return tuple(re.findall(MARK, text) or text.split())


def dump(value: Any) -> str:
    """Write a value as JSON."""
    return json.dumps(value, ensure_ascii=False)


class Arguments:
    """How arguments are written, the kind of a layout: here, as a JSON object."""

    @property
    def example(self) -> str:
        """Placeholder of arguments for the prompt."""
        return "{...}"

    def write_name(self, name: str) -> str:
        return name

    def write(self, arguments: Mapping[str, Any]) -> str:
        return dump(dict(arguments))

    def sketch(self, parameters: Mapping[str, str]) -> str:
        """Write `{"harbour": string, "days"?: integer}`."""
        shown = (f'"{key.removesuffix("?")}"{"?" * key.endswith("?")}: {kind}' for key, kind in parameters.items())
        return f"{{{', '.join(shown)}}}"


class PythonArguments(Arguments):
    """Arguments as Python: `x='a', y=1`."""

    @property
    def example(self) -> str:
        """Placeholder of arguments for the prompt."""
        return "...=..."

    def write(self, arguments: Mapping[str, Any]) -> str:
        return write_python_call("f", arguments)[2:-1]

    def sketch(self, parameters: Mapping[str, str]) -> str:
        """Write `harbour: string, days?: integer`."""
        return ", ".join(f"{key}: {kind}" for key, kind in parameters.items())


@dataclass(frozen=True)
class GemmaArguments(Arguments):
    """Arguments as Gemma writes them: `{k:<escape>text<escape>,n:42}`.

    Attributes:
        quote: The mark around a text.
    """

    quote: str

    @property
    def example(self) -> str:
        """Placeholder of arguments for the prompt."""
        return f"{{...:{self.quote}...{self.quote}}}"

    def write(self, arguments: Mapping[str, Any]) -> str:
        return self.write_value(dict(arguments))

    def write_value(self, value: Any) -> str:
        if isinstance(value, str) and self.quote not in value:
            return f"{self.quote}{value}{self.quote}"
        if isinstance(value, Mapping):
            inner = ",".join(f"{self.write_key(key)}:{self.write_value(item)}" for key, item in value.items())
            return f"{{{inner}}}"
        return f"[{','.join(map(self.write_value, value))}]" if isinstance(value, list | tuple) else dump(value)

    def write_key(self, key: str) -> str:
        """Write the name of a member."""
        return key if key.isidentifier() and key.isascii() and key not in RESERVED_WORDS else dump(key)

    def sketch(self, parameters: Mapping[str, str]) -> str:
        """Write `{harbour:string,days?:integer}`."""
        return f"{{{','.join(f'{key}:{kind}' for key, kind in parameters.items())}}}"


@dataclass(frozen=True)
class Layout:
    """How a format writes its calls.

    Attributes:
        call: One call.
        arguments: How its arguments are written.
        before: What precedes the first call; it ends in the bracket of a list, if the calls are one.
        after: What follows the last call.
        separator: What separates calls that stand side by side; None if only one does.
        instead: What else may follow the marker and is no call, as an expression of the grammar.
    """

    call: str
    arguments: Arguments
    before: str = ""
    after: str = ""
    separator: str | None = None
    instead: str = ""

    def __post_init__(self) -> None:
        """Check that a reader can find the calls.

        Raises:
            ValueError: The call does not say where the tool and its arguments stand, or a mark is a word that ordinary
                text contains.
        """
        if self.call and ("NAME" not in self.call or "ARGUMENTS" not in self.call):
            raise ValueError(f"The call {self.call!r} must contain NAME and ARGUMENTS.")
        for mark in (self.opener, self.call_opener, *self.closers):
            if mark and not re.search(r"[^\w\s]", mark):
                raise ValueError(f"The mark {mark.strip()!r} cannot be told from a word of ordinary text.")

    def write(self, name: str, arguments: Mapping[str, Any]) -> str:
        return f"{self.before}{self._fill(self.write_name(name), self.arguments.write(arguments))}{self.after}"

    def sketch(self, name: str, parameters: Mapping[str, str]) -> str:
        """List a tool: name and parameters (name to type; a trailing `?` marks an optional one)."""
        shown = self.arguments.sketch(parameters)
        return f"{name} {shown}" if self.is_named else self._fill(self.write_name(name), shown).replace("\n", "")

    @property
    def example(self) -> str:
        """Placeholder of a call for the prompt."""
        return f"{self.before}{self._fill(self.write_name('...'), self.arguments.example)}{self.after}"

    @property
    def is_object(self) -> bool:
        """Whether a call is one JSON object, name and all."""
        return self.call.startswith("{")

    @property
    def is_named(self) -> bool:
        """Whether a call is the name of the tool and a JSON object."""
        return type(self.arguments) is Arguments and not self.is_object

    def write_name(self, name: str) -> str:
        return dump(name) if self.is_object else self.arguments.write_name(name)

    def _fill(self, name: str, arguments: str) -> str:
        before, _, after = self.call.partition("NAME")
        return f"{before}{name}{after.replace('ARGUMENTS', arguments, 1)}"

    @cached_property
    def opener(self) -> str:
        """What begins the calls; "" if nothing does."""
        return self.before.partition("\n")[0].rstrip(" [") or self.call_opener

    @cached_property
    def call_opener(self) -> str:
        """What begins one call before its name."""
        before = self.call.partition("NAME")[0].partition("{")[0]
        mark = re.match(MARK, before)
        return mark[0] if mark else before.rstrip()

    @cached_property
    def closers(self) -> tuple[str, ...]:
        """End markers of a call."""
        end = self.call.partition("ARGUMENTS")[2]
        if self.is_named or (self.after and end.strip("})\n`")):
            found = find_marks(end) if self.is_named else end.split()
            return tuple(filter(None, (*found, self.after.strip())))
        last = f"{end.lstrip('})')}{self.after}".rpartition("\n")[2].lstrip("] ")
        return (last,) if last else ()


def json_call(before: str, after: str = "", call: str = '{"name": NAME, "arguments": ARGUMENTS}') -> Layout:
    """Return the layout of calls that are JSON objects, in a list if `before` ends in its bracket."""
    return Layout(call, Arguments(), before, after, ", " if before.endswith("[") else None)


def named_call(call: str, before: str = "", after: str = "", instead: str = "") -> Layout:
    """Return the layout of calls that name the tool before the JSON of its arguments."""
    return Layout(call, Arguments(), before, after, "" if before else None, instead)


def python_call(before: str, after: str, call: str = "NAME(ARGUMENTS)") -> Layout:
    """Return the layout of calls in Python, in a list if `before` ends in its bracket."""
    return Layout(call, PythonArguments(), before, after, ", " if before.endswith("[") else None)


def gemma_call(before: str, quote: str, after: str) -> Layout:
    """Return the layout of Gemma's calls: `call:f{k:<escape>text<escape>,n:42}`."""
    return Layout("call:NAMEARGUMENTS", GemmaArguments(quote), before, after)
