"""Build grammars in Lark, the notation of llguidance: named rules and the ways of combining them.

An expression is a text that may be on the right side of a rule; None is an expression that matches nothing. White
space inside a call is limited, so that a small model cannot write blanks without end.

Source: https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

SPACE, GAP = "SPACE?", "GAP?"
ANY = "/(?s:.)/"
MAX_COUNT = 2048  # no reply has room for a longer text or list
_FIXED = {"SPACE": r"/ |\n[ \t]{0,20}/", "GAP": r"/[ \t\r\n]{1,8}/"}


class GrammarRules:
    """The rules of one grammar. Adding the same body twice returns the same name."""

    def __init__(self, prefix: str = "r") -> None:
        """Start without rules; `prefix`, a small letter, keeps apart the names of grammars that are joined."""
        self._prefix = prefix
        self._bodies: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def add(self, body: str) -> str:
        """Return the name of the rule with this body."""
        if body not in self._names:
            self._names[body] = self.define(self.reserve(), body)
        return self._names[body]

    def add_terminal(self, body: str, is_lazy: bool = False) -> str:
        """Return the name of a terminal, or of a rule of one that ends as early as it can."""
        if body not in self._names:
            name = self.define(self.reserve().upper(), body)
            if is_lazy:
                self.define(f"{name.lower()}-lazy[lazy]", name)
            self._names[body] = f"{name.lower()}-lazy" if is_lazy else name
        return self._names[body]

    def reserve(self) -> str:
        """Return a name for a rule that is defined later, because it is recursive."""
        name = f"{self._prefix}{len(self._bodies)}"
        self._bodies[name] = ""
        return name

    def define(self, name: str, body: str) -> str:
        """Set the body of a rule that is reserved or has a name of its own; return the name."""
        self._bodies[name] = body
        return name

    def write(self) -> str:
        return "\n".join(f"{name}: {body}" for name, body in self._bodies.items())


def write_grammar(rules: str, body: str) -> str:
    """Write the grammar of a text: what it consists of, and the rules that this refers to."""
    fixed = "\n".join(f"{name}: {pattern}" for name, pattern in _FIXED.items())
    # without no_forcing, the canonical tokens of a forced text are the only ones, and not every tokenizer has such
    return f'%llguidance {{"no_forcing": true}}\nstart: {body}\n{rules}\n{fixed}\n'


def literal(text: str) -> str:
    """Return an expression for exactly this text."""
    return json.dumps(text)  # not every character may stand in a grammar as itself


def can_match(text: str) -> bool:
    """Tell whether a text can be matched: half of a surrogate pair is no character."""
    return not re.search("[\ud800-\udfff]", text)


def spaced(text: str, spaces: str = " \n") -> str:
    """Return an expression for a text in which a blank stands for the rule `SPACE` and a newline for `GAP`.

    A newline behind a small letter ends a word (```python), and is itself.
    """
    parts = re.split(f"((?<![a-z])[{spaces}])", text)
    return " ".join({" ": SPACE, "\n": GAP}.get(part) or literal(part) for part in parts if part)


def one_of(expressions: Iterable[str | None]) -> str | None:
    """Return an expression for any of the expressions; None if all of them are None."""
    distinct = list(dict.fromkeys(expression for expression in expressions if expression is not None))
    return f"({' | '.join(distinct)})" if len(distinct) > 1 else next(iter(distinct), None)


def repeat(item: str, least: int = 0, most: int | None = None) -> str:
    """Return an expression for `least` to `most` repetitions of an expression; None for no maximum."""
    least = min(least, MAX_COUNT)
    if most is None or most > MAX_COUNT:
        return f"({item}){{{least},}}" if least else f"({item})*"
    return f"({item}){{{least},{max(least, most)}}}" if most else ""


def any_name(rules: GrammarRules, pattern: str, names: Iterable[str]) -> str:
    """Return the terminal of a name: a text that matches a pattern and is none of `names`."""
    known = [literal(name) for name in names if can_match(name)]
    return rules.add_terminal(f"/{pattern}/ & ~({' | '.join(known)})" if known else f"/{pattern}/")
