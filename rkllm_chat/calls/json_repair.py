"""Parse JSON as small models write it: damage with only one possible meaning is repaired and reported.

Valid JSON is parsed by `json`. Otherwise the parser below passes over the text once and repairs what `REPAIRS` lists;
it leaves strings, numbers and words to `json`, so that undamaged parts keep their meaning. Ambiguous text is refused:
strings are never closed, and nothing is appended to a truncated text.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from ..core.strict_json import build_object, parse_strict_json

REPAIRS = (
    "trailing comma",
    "missing comma",
    "single quotes",
    "curly quotes",
    "Python literal",
    "raw newline",
    "unknown escape",
    "unquoted key",
    "comment",
    "extra brace",
    "missing brace",
)
MAX_DEPTH = 64


class _Quote(NamedTuple):
    """How a string continues after its opening mark and how it ends. `body` matches anywhere, possibly nothing."""

    body: re.Pattern[str]
    closer: str
    repair: str


# A straight quote between curly ones may be part of the string or its end: the body stops there.
_QUOTES = {
    '"': _Quote(re.compile(r'(?:[^"\\]+|\\.)*', re.DOTALL), '"', ""),
    "'": _Quote(re.compile(r"(?:[^'\\]+|\\.)*", re.DOTALL), "'", "single quotes"),
    "“": _Quote(re.compile(r'(?:[^“”"\\]+|\\.)*', re.DOTALL), "”", "curly quotes"),
    "‘": _Quote(re.compile(r"""(?:[^‘’'"\\]+|\\.)*""", re.DOTALL), "’", "curly quotes"),
}
_END_QUOTES = tuple(quote.closer for quote in _QUOTES.values())
_CLOSERS = {"{": "}", "[": "]"}
_PYTHON = {"True": True, "False": False, "None": None}
RESERVED_WORDS = (*_PYTHON, "true", "false", "null")

# No comment begins right after a string: "see "//host" contains a quote. A blank follows "#": #fff may be a value.
_BLANKS = re.compile(
    r"""(?: [ \t\r\n]+ | (?P<comment> (?<!["'”’]) (?: //[^\n]* | \#(?![^ \t\r\n])[^\n]* | /\*.*?\*/ ) ) )*""",
    re.DOTALL | re.VERBOSE,
)
_SWALLOWED_BRACE = re.compile(r"""[}\]]["'”’][\s}\]]*\Z""")
"""The end of a text in which a string holds what may be missing behind it."""
_WORD = re.compile(r"""[^ \t\r\n,:\[\]{}"'“”‘’]*""")
_KEY = re.compile(r"(?:(?:[^\W\d]|\$)[\w$-]*)?")
_SINGLE_QUOTED = re.compile(r'\\.|"', re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_JSON_ESCAPES = '"\\/bfnrt'
_DOUBTFUL_ESCAPES = "'`xuU0123456789\n"
"""What may follow a backslash with a meaning in other languages."""
_DRIVE = re.compile(r"[A-Za-z]:\\")
_CONTROL = re.compile(r"[\x00-\x1f]")
_THREE_DIGITS = re.compile(r"[0-9]{3}(?![0-9])")


def parse_lenient_json(text: str, *, may_close: bool = False) -> tuple[Any, tuple[str, ...]]:
    """Parse a text and repair it where necessary.

    Args:
        text: The JSON.
        may_close: Whether an end marker follows, so that one last brace may be missing.

    Returns:
        The value, and the `REPAIRS` that were made, in that order.

    Raises:
        ValueError: One line that says what is wrong and where: for what cannot be repaired, for what
            `parse_strict_json` refuses, and for nesting deeper than `MAX_DEPTH`.
    """
    try:
        value = parse_strict_json(text)
    except ValueError as error:
        if not isinstance(error.__cause__, json.JSONDecodeError):
            raise
        parser = _Parser(text, may_close)
        return parser.read(), tuple(name for name in REPAIRS if name in parser.repairs)
    if text.count("{") + text.count("[") > MAX_DEPTH:
        _refuse_depth(value)
    return value, ()


def _refuse_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _containers_in(outer)]
    if level:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")


def _containers_in(value: Any) -> list[Any]:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [inner for inner in inside if isinstance(inner, dict | list)]


def syntax_error(what: str, text: str, at: int) -> ValueError:
    """Return the error that says what is wrong and at which line and column."""
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return ValueError(f"{what} at line {line}, column {column}")


class _Parser:
    """One pass over a damaged text; `repairs` collects what was repaired.

    In `{"a": {}, "b": 1}}` the first closing brace may be the redundant one: a member follows an object inside an
    object. `maybe_early` contains the closing brackets of which this is true.
    """

    def __init__(self, text: str, may_close: bool) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.may_close = may_close
        self.repairs: set[str] = set()
        self.maybe_early: set[str] = set()

    def read(self) -> Any:
        self.skip_blanks()
        value = self.read_value()
        self.skip_blanks()
        if isinstance(value, dict | list) and self.next in {"}", "]"} - self.maybe_early:
            self.repairs.add("extra brace")
            self.at += 1
            self.skip_blanks()
        if self.next:
            raise self.fault(f"{self.next!r} follows the end of the JSON")
        return value

    def read_value(self) -> Any:
        if self.next in _CLOSERS:
            return self.read_container()
        return self.read_string() if self.next in _QUOTES else self.read_word()

    def read_container(self) -> dict[str, Any] | list[Any]:
        if self.depth == MAX_DEPTH:
            raise self.fault(f"nested deeper than {MAX_DEPTH} levels")
        is_object = self.next == "{"
        read, closer = (self.read_member, "}") if is_object else (self.read_value, "]")
        members = []
        self.depth += 1
        self.at += 1
        self.skip_blanks()
        goes_on = self.next != closer
        while goes_on:
            members.append(read())
            goes_on = self.pass_comma(closer)
        self.at += 1
        self.depth -= 1
        return build_object(members) if is_object else members

    def read_member(self) -> tuple[str, Any]:
        key = self.read_string() if self.next in _QUOTES else self.read_bare_key()
        self.skip_blanks()
        if self.next != ":":
            raise self.fault(f"no colon follows the key {key[:40]!r}")
        self.at += 1
        self.skip_blanks()
        return key, self.read_value()

    def pass_comma(self, closer: str) -> bool:
        """Skip what separates two members; tell whether another one follows."""
        end = self.at
        commented = self.skip_blanks()
        if self.next == ",":
            self.at += 1
            self.skip_blanks()
            if self.next == closer:
                self.repairs.add("trailing comma")
        elif not self.next and self.may_close and self.depth == 1 and not commented:
            if _SWALLOWED_BRACE.search(self.text):
                raise self.fault("a brace is missing, or stands in the string before")
            self.repairs.add("missing brace")
            return False
        elif self.next != closer:
            self.check_missing_comma(end, commented, closer)
            self.repairs.add("missing comma")
        goes_on = self.next != closer
        if goes_on and self.text[end - 1] == closer:
            self.maybe_early.add(closer)
        return goes_on

    def check_missing_comma(self, end: int, commented: bool, closer: str) -> None:
        """Raise ValueError if more, or something else, may be missing than the comma after the previous member."""
        before, after = self.text[end - 1], self.next
        if not after:
            raise self.fault(f"the text ends where a {closer} is missing")
        if after in "]}:":
            raise self.fault(f"{after!r} stands where a comma or {closer} must")
        if before in _END_QUOTES and (
            end == self.at or after not in (*_QUOTES, *_CLOSERS) or self.text[end - 2] == ","
        ):
            raise self.fault('a comma is missing, or a quote inside the string before is not written \\",')
        one_number = before.isdigit() and _THREE_DIGITS.match(self.text, self.at)
        if commented or one_number or (end == self.at and before not in "]}"):
            raise self.fault("a comma is missing")

    def read_bare_key(self) -> str:
        key = self.take(_KEY)
        if not key or key in RESERVED_WORDS:
            raise self.unexpected(key or self.next, "a key")
        self.repairs.add("unquoted key")
        return key

    def read_word(self) -> Any:
        start, word = self.at, self.take(_WORD)
        if word in _PYTHON:
            self.repairs.add("Python literal")
            return _PYTHON[word]
        try:
            return parse_strict_json(word)
        except ValueError as error:
            if not isinstance(error.__cause__, json.JSONDecodeError):
                raise
        self.at = start
        raise self.unexpected(word or self.next, "a value")

    def read_string(self) -> str:
        start, quote = self.at, _QUOTES[self.next]
        self.at += 1
        body = self.take(quote.body)
        if self.next != quote.closer:
            if self.next in ("", "\\"):
                self.at = start
                raise self.fault("the string is not closed that begins")
            raise self.fault(f"{self.next} stands inside a string in curly quotes")
        self.at += 1
        self.repairs |= {quote.repair} - {""}
        if _CONTROL.search(body):
            self.repairs.add("raw newline")
        if quote.closer == "'":
            body = _SINGLE_QUOTED.sub(_as_double_quoted, body)
        if "\\" not in body:
            return body
        for repair, write in (("", str), ("unknown escape", _double_unknown_escapes)):
            try:
                text = str(parse_strict_json(f'"{write(body)}"', strict=False))
            except ValueError as error:
                if not isinstance(error.__cause__, json.JSONDecodeError):
                    raise
            else:
                self.repairs |= {repair} - {""}
                return text
        self.at = start
        raise self.fault("JSON knows no such escape as stands in the string")

    def skip_blanks(self) -> bool:
        """Skip blanks and comments; tell whether there was a comment."""
        match = _BLANKS.match(self.text, self.at)
        if match is None or match["comment"] is None:
            self.at = match.end() if match else self.at
            return False
        self.at = match.end()
        self.repairs.add("comment")
        return True

    @property
    def next(self) -> str:
        """The next character; "" at the end of the text."""
        return self.text[self.at : self.at + 1]

    def take(self, pattern: re.Pattern[str]) -> str:
        """Consume and return what the pattern matches here."""
        match = pattern.match(self.text, self.at)
        taken = match[0] if match else ""
        self.at += len(taken)
        return taken

    def unexpected(self, actual: str, expected: str) -> ValueError:
        return self.fault(f"{repr(actual[:40]) if actual else 'the end of the text'} stands where {expected} must")

    def fault(self, what: str) -> ValueError:
        return syntax_error(what, self.text, self.at)


def _double_unknown_escapes(body: str) -> str:
    r"""Return a JSON string in which `\d` is a backslash and a `d`, because JSON knows no such escape.

    It is returned unchanged if another escape in it may be meant in the same way: `\b` in a regular expression, or `\n`
    in a path of Windows.
    """
    escapes = {match[1] for match in _ESCAPE.finditer(body)}
    known = {escape for escape in escapes if escape[0] in _JSON_ESCAPES or len(escape) > 1}
    doubtful = "bfnrtu" if _DRIVE.match(body) else "bf"
    if any(escape in _DOUBTFUL_ESCAPES for escape in escapes - known) or any(
        sequence[0] in doubtful for sequence in known
    ):
        return body
    return _ESCAPE.sub(lambda match: match[0] if match[1] in known else f"\\\\{match[1]}", body)


def _as_double_quoted(match: re.Match[str]) -> str:
    return {"\\'": "'", '"': '\\"'}.get(match[0], match[0])
