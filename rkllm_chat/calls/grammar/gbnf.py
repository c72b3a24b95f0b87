"""Build grammars in GBNF, the notation of llama.cpp: named rules and the ways of combining them.

An expression is a text that may be on the right side of a rule; None is an expression that matches nothing. White
space inside a call is limited, so that a small model cannot write blanks without end.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from os.path import commonprefix

SPACE, GAP = "ws", "gap"
_NO_TEXT = '""'
NO_MATCH = '"\\x00"'
MAX_COUNT = 2048  # no reply has room for a longer text or list
_BLOCK = 32
_FIXED = {
    SPACE: '"" | " " | "\\n" [ \\t]{0,20}',
    GAP: "[ \\t\\r\\n]{0,8}",
}
_SPECIAL = re.compile(r'[\\"\x00-\x1F\uD800-\uDFFF]')
_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class GrammarRules:
    """The rules of one grammar. Adding the same body twice returns the same name."""

    def __init__(self) -> None:
        self._bodies: dict[str, str] = dict(_FIXED)
        self._names = {body: name for name, body in _FIXED.items()}
        self._reserved: dict[Hashable, str] = {}

    def add(self, body: str) -> str:
        """Return the name of the rule with this body."""
        if body not in self._names:
            self._names[body] = self.reserve()
            self._bodies[self._names[body]] = body
        return self._names[body]

    def reserve(self) -> str:
        """Return a name for a rule that is defined later, because it is recursive."""
        name = f"r{len(self._bodies)}"
        self._bodies[name] = NO_MATCH
        return name

    def reserve_once(self, key: Hashable) -> tuple[str, bool]:
        """Return the name reserved under this key, and whether it is new, so that its body must be set."""
        is_new = key not in self._reserved
        if is_new:
            self._reserved[key] = self.reserve()
        return self._reserved[key], is_new

    def define(self, name: str, body: str) -> str:
        """Set the body of a rule that is reserved or has a name of its own; return the name."""
        self._bodies[name] = body
        return name

    def write(self, root: str) -> str:
        """Write all rules; `root` is the body of the first."""
        return "\n".join(f"{name} ::= {body or _NO_TEXT}" for name, body in {"root": root, **self._bodies}.items())


def literal(text: str) -> str:
    """Return an expression for exactly this text."""
    return '"' + _SPECIAL.sub(lambda match: _ESCAPED.get(match[0]) or _code(match[0]), text) + '"'


def can_match(text: str) -> bool:
    """Tell whether llama.cpp can match a text: it ends texts at NUL."""
    return "\0" not in text


def spaced(text: str, spaces: str = " \n") -> str:
    """Return an expression for a text in which a blank stands for the rule `SPACE` and a newline for `GAP`.

    A newline behind a small letter ends a word (```python), and is itself.
    """
    parts = re.split(f"((?<![a-z])[{spaces}])", text)
    return " ".join({" ": SPACE, "\n": GAP}.get(part) or literal(part) for part in parts if part)


def _code(char: str) -> str:
    """Write a character as in a character class: by its number, except for letters and digits."""
    return char if char.isascii() and char.isalnum() else f"\\U{ord(char):08X}"


def none_of(chars: str, controls: bool = False) -> str:
    """Return an expression for one character that is none of these.

    Characters beyond ASCII should be avoided: of a character whose bytes come one by one, llama.cpp rejects the first
    byte if any excluded character begins with it.

    Args:
        chars: The excluded characters.
        controls: Whether control characters are allowed.
    """
    below = "" if controls else "\\x00-\\x1F"
    return f"[^{''.join(map(_code, sorted(set(chars))))}{below}]"


def any_of(chars: str) -> str:
    """Return an expression for one of these characters."""
    ranges: list[tuple[str, str]] = []
    for char in sorted(set(chars)):
        follows = ranges and ord(char) == ord(ranges[-1][1]) + 1
        ranges.append((ranges.pop()[0], char) if follows else (char, char))
    return f"[{''.join(_code(first) if first == last else f'{_code(first)}-{_code(last)}' for first, last in ranges)}]"


def one_of(expressions: Iterable[str | None]) -> str | None:
    """Return an expression for any of the expressions; None if all of them are None."""
    distinct = list(dict.fromkeys(one for one in expressions if one is not None))
    return f"({' | '.join(distinct)})" if len(distinct) > 1 else next(iter(distinct), None)


def one_literal_of(branches: Mapping[str, str]) -> str:
    """Return an expression for one of the literals, each with the expression that follows it.

    Common prefixes are written once, so that the engine follows one path instead of hundreds.
    """
    groups: dict[str, dict[str, str]] = {}
    for text, rest in branches.items():
        groups.setdefault(text[:1], {})[text] = rest
    alternatives: list[str] = []
    for group in groups.values():
        shared = commonprefix([*group])  # noqa: RUF071 - texts, character by character
        inner = {text[len(shared) :]: rest for text, rest in group.items()}
        alternatives.append(f"{literal(shared)} {one_literal_of(inner) if len(inner) > 1 else inner['']}".rstrip())
    return one_of(alternatives) or NO_MATCH


def repeat(rules: GrammarRules, item: str, least: int = 0, most: int | None = None) -> str:
    """Return an expression for `least` to `most` repetitions of an expression.

    Large numbers are counted in blocks: a rule for each number would be thousands of rules.
    """
    name = rules.add(item)
    least = min(least, MAX_COUNT)
    needed = _count_off(rules, name, least)
    if most is None or most > MAX_COUNT:
        return f"{needed} {name}*".strip()
    return f"{needed} {_up_to(rules, name, max(most - least, 0))}".strip()


def _count_off(rules: GrammarRules, name: str, number: int) -> str:
    blocks, rest = divmod(number, _BLOCK)
    parts = [f"{rules.add(f'{name}{{{_BLOCK}}}')}{{{blocks}}}"] if blocks else []
    return " ".join([*parts, f"{name}{{{rest}}}"] if rest else parts)


def _up_to(rules: GrammarRules, name: str, number: int) -> str:
    blocks, rest = divmod(number, _BLOCK)
    if not number:
        return ""
    if blocks < 2:
        return f"{name}{{0,{number}}}"
    block = rules.add(f"{name}{{{_BLOCK}}}")
    last = f"{name}{{0,{rest}}}" if rest else ""
    return f"({block}{{0,{blocks - 1}}} {name}{{0,{_BLOCK - 1}}} | {block}{{{blocks}}} {last})"
