"""Calls written as Python: `[f(x='a', y=1), g()]`. Nothing is evaluated; arguments are constants, lists and dicts.

The grammar of a call is read here and only single strings go to `ast`: Python's own parser knows no argument called
`from` and no tool called `get-time`, and its documentation warns that deep text can crash the process.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from ..exact import finite, refuse_halves, short, unique
from .damaged import DEEPEST, fault

T = TypeVar("T")

LARGEST = 64 * 1024  # characters
CONSTANTS = {"True": True, "False": False, "None": None, "true": True, "false": False, "null": None}

# Names of tools and arguments; of Python's marks they may hold - . and /.
_LETTER = r"[^\s\x00-,:-@\[-^`{-\x7f]"
_NAME = re.compile(f"{_LETTER}+")
_TOKEN = re.compile(
    rf"""
      (?P<blank> (?: \s | \#[^\r\n]* )+ )
    | (?P<string> (?P<prefix>[A-Za-z]{{0,2}}) (?:
          '''(?: [^'\\] | \\. | '(?!'') )*'''
        | \"""(?: [^"\\] | \\. | "(?!"") )*\"""
        | '(?!'') (?: [^'\\\r\n] | \\(?:\r\n|.) )*'
        | "(?!"") (?: [^"\\\r\n] | \\(?:\r\n|.) )*" ) )
    | (?P<number> -? (?:
          (?: [0-9]+\.[0-9]* | \.[0-9]+ | [0-9]+(?=[eE]) ) (?: [eE][+-]?[0-9]+ )?
        | 0[xX][0-9a-fA-F]{{1,64}} | 0[oO][0-7]{{1,64}} | 0[bB][01]{{1,64}}
        | 0 | [1-9](?:_?[0-9])* ) (?! {_LETTER} ) )
    | (?P<name> {_LETTER}+ )
    | (?P<mark> \*\* | [()\[\]{{}},=:;] )
    """,
    re.DOTALL | re.VERBOSE,
)


class Token(NamedTuple):
    """A piece of the text; the last one is empty. `fresh`: it is the first on its line, or the last of all."""

    kind: str
    text: str
    at: int
    fresh: bool


def read_calls(text: str) -> list[tuple[str, dict[str, Any]]]:
    """The names and arguments of the calls in a text that holds nothing else: one, or several on lines of their own,
    parted by ";" or in brackets; `print(f(x=1))` is `f(x=1)`. Tuples become lists.

    Raises ValueError, one line that says what and where, for all else, for a text longer than LARGEST, and for what
    is nested deeper than DEEPEST.
    """
    if len(text) > LARGEST:
        raise ValueError(f"the calls are longer than {LARGEST} characters")
    refuse_halves(text)
    return Parser(text).read()


def write_call(name: str, arguments: Mapping[str, Any]) -> str:
    """The call as Python, which `read_calls` reads back; a key that is no Python name stands in a `**{...}`.

    The values are such as JSON has. Raises ValueError for a name that no call can begin with.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name[:40]!r} cannot be written as the name of a call")
    parts = [
        f"{key}={value!r}" if key.isidentifier() else f"**{{{key!r}: {value!r}}}" for key, value in arguments.items()
    ]
    return f"{name}({', '.join(parts)})"


class Parser:
    """One pass over the tokens of a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(tokens_of(text))
        self.index = 0
        self.depth = 0

    def read(self) -> list[tuple[str, dict[str, Any]]]:
        calls = self.read_group()
        while self.skip(";") or self.skip(",") or self.next.fresh:
            if self.next.kind == "end":
                return calls
            calls += self.read_group()
        raise self.unexpected("the end of the line")

    def read_group(self) -> list[tuple[str, dict[str, Any]]]:
        if self.next.text != "[":
            return [self.read_call()]
        calls = self.read_listed("]", self.read_call)
        if not calls:
            raise self.fault("no call stands in the brackets that end")
        return calls

    def read_call(self) -> tuple[str, dict[str, Any]]:
        """A call, or the one that stands in print( )."""
        if self.next.text != "print" or not self.is_named("(", ahead=2):
            return self.read_plain_call()
        self.index += 1
        call, *others = self.read_listed(")", self.read_plain_call)
        if others:
            raise self.fault("several calls stand in the print() that ends")
        return call

    def read_plain_call(self) -> tuple[str, dict[str, Any]]:
        if not self.is_named("("):
            raise self.unexpected("a call")
        name = self.next.text
        self.index += 1
        pairs = self.read_listed(")", self.read_argument)
        return name, unique([pair for some in pairs for pair in some])

    def read_argument(self) -> list[tuple[str, Any]]:
        """`name=value`, or the names and values that stand in `**{...}`."""
        if self.skip("**"):
            if self.next.text != "{":
                raise self.unexpected("a dict")
            return self.read_unpacked()
        if not self.is_named("="):
            raise self.fault("an argument without a name (write name=value) stands")
        name = self.next.text
        self.index += 2
        return [(name, self.read_value())]

    def read_unpacked(self) -> list[tuple[str, Any]]:
        """The dict behind `**`, which is there for names that cannot stand before "="."""
        start = self.index
        pairs = list(self.read_value().items())
        if plain := [key for key, _ in pairs if key.isidentifier()]:
            self.index = start
            raise self.fault(f"a dict with the name {plain[0][:40]} (write {plain[0][:40]}=value) stands")
        return pairs

    def read_value(self) -> Any:
        kind, text = self.next.kind, self.next.text
        if kind == "string":
            return self.read_strings()
        if text in ("[", "("):
            return self.read_list()
        if text == "{":
            return unique(self.read_listed("}", self.read_pair))
        if kind == "number" or text in CONSTANTS:
            self.index += 1
            return read_number(text) if kind == "number" else CONSTANTS[text]
        raise self.unexpected("a value")

    def read_strings(self) -> str:
        """Strings side by side are one, as in Python."""
        parts = []
        while self.next.kind == "string":
            try:
                parts.append(read_string(self.next.text))
            except (SyntaxError, ValueError):
                raise self.fault("a backslash or a character is wrong in the string that begins") from None
            self.index += 1
        return "".join(parts)

    def read_list(self) -> Any:
        """A list; a tuple as a list; or the one value that stands in ( ) without a comma."""
        if self.next.text == "[":
            return self.read_listed("]", self.read_value)
        values = self.read_listed(")", self.read_value)
        is_value = len(values) == 1 and self.tokens[self.index - 2].text != ","
        return values[0] if is_value else values

    def read_pair(self) -> tuple[str, Any]:
        if self.next.kind != "string":
            raise self.unexpected("a key in quotes")
        key = self.read_strings()
        if not self.skip(":"):
            raise self.unexpected("a colon")
        return key, self.read_value()

    def read_listed(self, closer: str, read: Callable[[], T]) -> list[T]:
        """What stands between the bracket that comes next and `closer`, parted by commas; one may be last."""
        if self.depth == DEEPEST:
            raise self.fault(f"nested deeper than {DEEPEST} levels")
        self.depth += 1
        self.index += 1
        found = []
        while not self.skip(closer):
            found.append(read())
            if not self.skip(",") and self.next.text != closer:
                raise self.unexpected(f"a comma or {closer}")
        self.depth -= 1
        return found

    @property
    def next(self) -> Token:
        return self.tokens[self.index]

    def skip(self, mark: str) -> bool:
        """Passes over a mark, if it is next."""
        is_next = self.next.text == mark
        self.index += is_next
        return is_next

    def is_named(self, mark: str, ahead: int = 0) -> bool:
        """Whether a name and this mark come next, or so many tokens ahead."""
        start = self.index + ahead
        texts = [token.text for token in self.tokens[start : start + 2]]
        return texts[1:] == [mark] and _NAME.fullmatch(texts[0]) is not None

    def unexpected(self, wanted: str) -> ValueError:
        found = "a call" if self.is_named("(") else repr(self.next.text[:40])
        return self.fault(f"{found if self.next.text else 'the end of the text'} stands where {wanted} must")

    def fault(self, what: str) -> ValueError:
        return fault(what, self.text, self.next.at)


def tokens_of(text: str) -> Iterator[Token]:
    at, fresh = 0, True
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            is_quote = text[at] in "'\""
            what = (
                "the string is not closed that begins" if is_quote else f"a mark that no call has ({text[at]!r}) stands"
            )
            raise fault(what, text, at)
        if (match["prefix"] or "").lower() not in ("", "r", "u"):
            raise fault("a string that is not plain text begins", text, at)
        if match["blank"] is None:
            yield Token(match.lastgroup or "", match[0], at, fresh)
            fresh = False
        elif "\n" in match[0] or "\r" in match[0]:
            fresh = True
        at = match.end()
    yield Token("end", "", at, True)


def read_number(text: str) -> int | float:
    try:
        return int(short(text), 0)
    except ValueError:
        return finite(text)


def read_string(text: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python reads "\d" as it stands, and complains
        value = str(ast.literal_eval(text))
    refuse_halves(value)
    return value
