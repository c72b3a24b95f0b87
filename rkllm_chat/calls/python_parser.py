"""Parse calls and literals written as Python: `[f(x='a', y=1), g()]`, `{'a': [1, True, None]}`.

Values are constants, lists, sets (read as lists) and dicts; a quoted string may hold line ends. Nothing is evaluated.
The grammar is parsed here and only single strings are passed to `ast`: Python's own parser accepts no argument called
`from` and no tool called `get-time`, and its documentation warns that deeply nested text can crash the process.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ..core.strict_json import build_object, check_number_length, parse_finite_float, reject_surrogates
from .json_repair import MAX_DEPTH, syntax_error

T = TypeVar("T")

MAX_LENGTH = 64 * 1024
"""Maximum length of a text of calls, in characters."""
_CONSTANTS = {"True": True, "False": False, "None": None, "true": True, "false": False, "null": None}

# Names of tools and arguments may contain - . and / besides the characters of Python names.
_LETTER = r"[^\s\x00-,:-@\[-^`{-\x7f]"
_NAME = re.compile(f"{_LETTER}+")
_TOKEN = re.compile(
    rf"""
      (?P<blank> (?: \s | \#[^\n]* )+ )
    | (?P<string> (?P<prefix>[A-Za-z]{{0,2}}) (?:
          '''(?: [^'\\] | \\. | '(?!'') )*'''
        | \"""(?: [^"\\] | \\. | "(?!"") )*\"""
        | '(?!'') (?: [^'\\] | \\(?:\r\n|.) )*'
        | "(?!"") (?: [^"\\] | \\(?:\r\n|.) )*" ) )
    | (?P<number> -? (?:
          (?: [0-9]+\.[0-9]* | \.[0-9]+ | [0-9]+(?=[eE]) ) (?: [eE][+-]?[0-9]+ )?
        | 0[xX][0-9a-fA-F]{{1,64}} | 0[oO][0-7]{{1,64}} | 0[bB][01]{{1,64}}
        | [0-9](?:_?[0-9])* ) (?! {_LETTER} ) )
    | (?P<name> {_LETTER}+ )
    | (?P<mark> \*\* | [()\[\]{{}},=:;] )
    | (?P<end> \Z )
    | (?P<wrong> . )
    """,
    re.DOTALL | re.VERBOSE,
)


def parse_calls(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Parse a text that contains only calls.

    Accepted are one call, or several on lines of their own, separated by ";" or in brackets; `print(f(x=1))` is read as
    `f(x=1)`. Tuples become lists.

    Returns:
        The name and the arguments of each call.

    Raises:
        ValueError: One line that says what is wrong and where: for any other text, for one longer than `MAX_LENGTH`,
            and for nesting deeper than `MAX_DEPTH`.
    """
    return _make_parser(text).read()


def parse_literal(text: str) -> Any:
    """Parse a text that is a literal of a JSON value, with lists for tuples.

    Raises:
        ValueError: As `parse_calls`.
    """
    parser = _make_parser(text)
    value = parser.read_value()
    if parser.kind != "end":
        raise parser.unexpected("the end of the text")
    return value


def _make_parser(text: str) -> _Parser:
    if len(text) > MAX_LENGTH:
        raise ValueError(f"the calls are longer than {MAX_LENGTH} characters")
    reject_surrogates(text)
    return _Parser(text)


def write_python_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Write a call as Python that `parse_calls` can read; a key that is no Python name is put into `**{...}`.

    Args:
        name: The tool.
        arguments: JSON values.

    Raises:
        ValueError: The name cannot begin a call.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name[:40]!r} cannot be written as the name of a call")
    parts = [
        f"{key}={write_python(value)}" if key.isidentifier() else f"**{write_python({key: value})}"
        for key, value in arguments.items()
    ]
    return f"{name}({', '.join(parts)})"


def write_python(value: Any) -> str:
    """Write a JSON value as Python that is JSON but for its constants."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{write_python(key)}: {write_python(item)}' for key, item in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(write_python, value))}]"
    return str(value) if value is None or isinstance(value, bool) else json.dumps(value, ensure_ascii=False)


class _Parser:
    """One pass over the tokens of a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _find_tokens(text)
        self.index = 0
        self.depth = 0

    def read(self) -> list[tuple[str, dict[str, Any]]]:
        calls = self.read_group()
        while self.skip(";") or self.skip(",") or self.begins_line():
            if self.kind == "end":
                return calls
            calls += self.read_group()
        raise self.unexpected("the end of the line")

    def read_group(self) -> list[tuple[str, dict[str, Any]]]:
        if self.next != "[":
            return [self.read_call()]
        calls = self.read_listed("]", self.read_call)
        if not calls:
            raise self.fault("there is no call in the brackets that end")
        return calls

    def read_call(self) -> tuple[str, dict[str, Any]]:
        """Read a call, or the one inside print( )."""
        if self.next != "print" or not self.is_named("(", offset=2):
            return self.read_plain_call()
        self.index += 1
        call, *others = self.read_listed(")", self.read_plain_call)
        if others:
            raise self.fault("there are several calls in the print() that ends")
        return call

    def read_plain_call(self) -> tuple[str, dict[str, Any]]:
        if not self.is_named("("):
            raise self.unexpected("a call")
        name = self.next
        self.index += 1
        pairs = self.read_listed(")", self.read_argument)
        return name, build_object([pair for some in pairs for pair in some])

    def read_argument(self) -> list[tuple[str, Any]]:
        """Read `name=value`, or the names and values in `**{...}`."""
        if self.skip("**"):
            if self.next != "{":
                raise self.unexpected("a dict")
            return self.read_unpacked()
        if not self.is_named("="):
            raise self.fault("an argument has no name (write name=value)")
        name = self.next
        self.index += 2
        return [(name, self.read_value())]

    def read_unpacked(self) -> list[tuple[str, Any]]:
        """Read the dict after `**`, which is allowed only for names that cannot precede "="."""
        start = self.index
        pairs = list(self.read_value().items())
        if plain := [key for key, _ in pairs if key.isidentifier()]:
            self.index = start
            raise self.fault(f"the name {plain[0][:40]} must not be unpacked from a dict (write {plain[0][:40]}=value)")
        return pairs

    def read_value(self) -> Any:
        kind, text = self.kind, self.next
        if kind == "string":
            return self.read_strings()
        if text in ("[", "("):
            return self.read_list()
        if text == "{":
            is_set = self.tokens[self.index + 1].lastgroup in ("string", "number") and not self.has_keys()
            return (
                self.read_listed("}", self.read_item) if is_set else build_object(self.read_listed("}", self.read_pair))
            )
        if kind == "number" or text in _CONSTANTS:
            self.index += 1
            return _read_number(text) if kind == "number" else _CONSTANTS[text]
        raise self.unexpected("a value")

    def read_strings(self) -> str:
        """Read adjacent strings as one, as Python does; not `'LA''C'`, which other languages read as `LA'C`."""
        parts: list[str] = []
        end = -1
        while self.kind == "string":
            if self.at == end:
                raise self.fault("two strings touch each other; a quote inside a string is written with a backslash,")
            end = self.tokens[self.index].end()
            try:
                parts.append(_read_string(self.next))
            except (SyntaxError, ValueError):
                raise self.fault("invalid backslash or character in the string that begins") from None
            self.index += 1
        return "".join(parts)

    def read_list(self) -> Any:
        """Read a list; a tuple as a list; or the one value inside ( ) without a comma."""
        if self.next == "[":
            return self.read_listed("]", self.read_item)
        values = self.read_listed(")", self.read_value)
        is_value = len(values) == 1 and self.tokens[self.index - 2][0] != ","
        return values[0] if is_value else values

    def has_keys(self) -> bool:
        """Tell whether the braces that come next hold pairs, by what follows the first item."""
        return self.tokens[self.index + 2][0] == ":"

    def read_item(self) -> Any:
        """Read an item of a list or set. Two strings without a comma are refused: which was meant is not known."""
        if self.kind == "string" and self.tokens[self.index + 1].lastgroup == "string":
            raise self.fault("a comma is missing behind the string that begins")
        return self.read_value()

    def read_pair(self) -> tuple[str, Any]:
        if self.kind != "string":
            raise self.unexpected("a key in quotes")
        key = self.read_strings()
        if not self.skip(":"):
            raise self.unexpected("a colon")
        return key, self.read_value()

    def read_listed(self, closer: str, read: Callable[[], T]) -> list[T]:
        """Read the items between the bracket that comes next and `closer`; a trailing comma is allowed."""
        if self.depth == MAX_DEPTH:
            raise self.fault(f"nested deeper than {MAX_DEPTH} levels")
        self.depth += 1
        self.index += 1
        items = []
        while not self.skip(closer):
            items.append(read())
            if not self.skip(",") and self.next != closer:
                raise self.unexpected(f"a comma or {closer}")
        self.depth -= 1
        return items

    @property
    def next(self) -> str:
        """The token that comes next; "" at the end."""
        return self.tokens[self.index][0]

    @property
    def kind(self) -> str | None:
        return self.tokens[self.index].lastgroup

    @property
    def at(self) -> int:
        return self.tokens[self.index].start()

    def begins_line(self) -> bool:
        """Tell whether the token that comes next is the first on its line, or the last of all."""
        blanks = self.text[self.tokens[self.index - 1].end() : self.at]
        return self.kind == "end" or "\n" in blanks or "\r" in blanks

    def skip(self, mark: str) -> bool:
        """Consume a mark if it is next."""
        is_next = self.tokens[self.index][0] == mark
        self.index += is_next
        return is_next

    def is_named(self, mark: str, offset: int = 0) -> bool:
        """Tell whether a name and this mark come next, or `ahead` tokens later."""
        name, *following = self.tokens[self.index + offset : self.index + offset + 2]
        return bool(following) and following[0][0] == mark and _NAME.fullmatch(name[0]) is not None

    def unexpected(self, expected: str) -> ValueError:
        actual = "a call" if self.is_named("(") else repr(self.next[:40])
        return self.fault(f"{actual if self.next else 'the end of the text'} is where {expected} must be")

    def fault(self, what: str) -> ValueError:
        return syntax_error(what, self.text, self.at)


def _find_tokens(text: str) -> list[re.Match[str]]:
    """Return the tokens of a text without white space and comments; the last one is empty."""
    tokens: list[re.Match[str]] = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "wrong":
            is_quote = match[0] in "'\""
            what = "the string is not closed that begins" if is_quote else f"unexpected character {match[0]!r}"
            raise syntax_error(what, text, match.start())
        if kind == "string" and match["prefix"].lower() not in ("", "r", "u"):
            raise syntax_error("a string that is not plain text begins", text, match.start())
        if kind != "blank":
            tokens.append(match)
    return tokens


def _read_number(text: str) -> int | float:
    try:
        has_base = text.lstrip("-")[1:2].isalpha()
        return int(check_number_length(text), 0 if has_base else 10)
    except ValueError:
        return parse_finite_float(text)


def _read_string(text: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python reads "\d" literally, with a warning
        value = str(ast.literal_eval(_escape_line_ends(text)))
    reject_surrogates(value)
    return value


def _escape_line_ends(text: str) -> str:
    """Return a string literal whose line ends are escaped; Python allows them between triple quotes only."""
    if text.endswith(("'''", '"""')) or text[:1] in "rR":
        return text
    return re.sub(r"(\\.)|[\r\n]", lambda match: match[1] or repr(match[0])[1:-1], text, flags=re.DOTALL)
