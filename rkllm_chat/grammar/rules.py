"""GBNF, llama.cpp's notation of grammars: rules under names, and the few ways of joining them. It knows no schema.

An expression is a text that may stand on the right side of a rule; None is one that nothing fits. White space within a
call is bounded, so that a small model cannot write blanks for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

SPACE, GAP = "ws", "gap"
NO_TEXT = '""'
NOTHING = '"\\x00"'
LONGEST_COUNTED = 2048  # a longer text or list is longer than a reply
BLOCK = 32
FIXED = {
    SPACE: '"" | " " | "\\n" [ \\t]{0,20}',
    GAP: "[ \\t\\r\\n]{0,8}",
}
_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class Rules:
    """The rules of one grammar. What is added twice has one name."""

    def __init__(self) -> None:
        self._bodies: dict[str, str] = dict(FIXED)
        self._names = {body: name for name, body in FIXED.items()}

    def add(self, body: str) -> str:
        """The name of the rule with this body."""
        if body not in self._names:
            self._names[body] = self.reserve()
            self._bodies[self._names[body]] = body
        return self._names[body]

    def reserve(self) -> str:
        """A name for a rule that is defined later, because it leads back to itself."""
        name = f"r{len(self._bodies)}"
        self._bodies[name] = NOTHING
        return name

    def define(self, name: str, body: str) -> None:
        self._bodies[name] = body

    def write(self, root: str) -> str:
        """All rules; `root` is the body of the first."""
        return "\n".join(f"{name} ::= {body or NO_TEXT}" for name, body in {"root": root, **self._bodies}.items())


def literal(text: str) -> str:
    """A text as it stands."""
    return '"' + "".join(_ESCAPED.get(char) or (char if is_plain(char) else code(char)) for char in text) + '"'


def is_plain(char: str) -> bool:
    """Whether a character may stand in the source of a grammar: no control character, no half of a surrogate pair."""
    return char >= " " and not "\ud800" <= char <= "\udfff"


def code(char: str) -> str:
    """A character by its number, as it may stand in a class."""
    return f"\\U{ord(char):08X}"


def other_than(chars: str, controls: bool = False) -> str:
    """One character that is none of these, and only with `controls` one below a blank.

    Nothing beyond ASCII should be among them where it can be helped: of a character whose bytes come one by one,
    llama.cpp refuses the first byte when any of these begins with it, too.
    """
    below = "" if controls else "\\x00-\\x1F"
    return f"[^{''.join(map(code, sorted(set(chars))))}{below}]"


def one_of(expressions: Iterable[str | None]) -> str | None:
    """Any of the expressions."""
    found = list(dict.fromkeys(one for one in expressions if one is not None))
    return f"({' | '.join(found)})" if len(found) > 1 else next(iter(found), None)


def choose(branches: Mapping[str, str]) -> str:
    """One of the literals, each with what follows it.

    What several have in common is written once: the engine then follows one way in place of hundreds.
    """
    groups: dict[str, dict[str, str]] = {}
    for text, rest in branches.items():
        groups.setdefault(text[:1], {})[text] = rest
    ways: list[str] = []
    for group in groups.values():
        shared = common_start(min(group), max(group))
        inner = {text[len(shared) :]: rest for text, rest in group.items()}
        ways.append(f"{literal(shared)} {choose(inner) if len(inner) > 1 else inner['']}".rstrip())
    return one_of(ways) or NOTHING


def common_start(first: str, last: str) -> str:
    """What two texts have in common, and with them all that are sorted between them."""
    size = next((i for i, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[:size]


def repeat(rules: Rules, item: str, least: int = 0, most: int | None = None) -> str:
    """The item so many times; `item` is an expression.

    Large numbers are counted in blocks: a rule for each number would be thousands of rules.
    """
    name = rules.add(item)
    least = min(least, LONGEST_COUNTED)
    needed = count_off(rules, name, least)
    if most is None or most > LONGEST_COUNTED:
        return f"{needed} {name}*".strip()
    return f"{needed} {up_to(rules, name, max(most - least, 0))}".strip()


def count_off(rules: Rules, name: str, number: int) -> str:
    blocks, rest = divmod(number, BLOCK)
    parts = [f"{rules.add(f'{name}{{{BLOCK}}}')}{{{blocks}}}"] if blocks else []
    return " ".join([*parts, f"{name}{{{rest}}}"] if rest else parts)


def up_to(rules: Rules, name: str, number: int) -> str:
    blocks, rest = divmod(number, BLOCK)
    if not number:
        return ""
    if blocks < 2:
        return f"{name}{{0,{number}}}"
    block = rules.add(f"{name}{{{BLOCK}}}")
    last = f"{name}{{0,{rest}}}" if rest else ""
    return f"({block}{{0,{blocks - 1}}} {name}{{0,{BLOCK - 1}}} | {block}{{{blocks}}} {last})"
