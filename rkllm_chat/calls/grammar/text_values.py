"""Build GBNF expressions for texts that end with a mark: between quotes or tags, with or without escapes.

A text of any length is matched against all sequences that it cannot contain. A text of limited length is counted
instead, and cannot contain what such a sequence begins with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .gbnf import MAX_COUNT, GrammarRules, any_of, literal, none_of, repeat

_WHITE_SPACE = " \t\n\v\f\r\x1c\x1d\x1e\x1f"

_Rests = frozenset[tuple[str, str]]
"""What is still missing of each sequence that has begun, and its kind."""
_CLOSING, _EXCLUDED, _PAIR, _NEEDED = "closing", "excluded", "pair", "needed"
_FORBIDDEN: _Rests = frozenset({("", _EXCLUDED)})


@dataclass(frozen=True)
class TextStyle:
    """How texts are written.

    Attributes:
        closing: The mark that ends a text.
        escaped: Characters that are not written as themselves.
        escapes: Expression of what is written in place of one character.
        controls: Whether control characters are written as themselves.
        excluded: Sequences that a text cannot contain besides its closing mark. A blank stands for any white space or
            none.
        unless: What may follow a sequence with a blank, so that the text can contain it.
        leads: What a text of limited length cannot contain, so that it contains no such sequence; all begin with the
            same character, and none if that is escaped.
    """

    closing: str
    escaped: str = ""
    escapes: str = ""
    controls: bool = False
    excluded: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    leads: tuple[str, ...] = ()

    @property
    def special(self) -> str:
        """Characters that cannot be written anywhere in a text."""
        return self.escaped + "".join(self.leads)[:1]

    def write_char(self, without: str = "") -> str:
        """Return the expression of one character that is none of `without`."""
        plain = none_of(self.escaped + without, self.controls)
        return f"({plain} | {self.escapes})" if self.escapes else plain


def write_text(rules: GrammarRules, style: TextStyle, least: int = 0, most: int | None = None) -> str:
    """Return the expression of a text of `least` to `most` characters with its closing mark; None for no maximum."""
    most = None if most is None or most > MAX_COUNT else most
    if not style.leads:
        return f"{repeat(rules, style.write_char(), least, most)} {literal(style.closing)}"
    return _count(rules, style, min(least, MAX_COUNT), most) if least or most is not None else _match(rules, style)


def _count(rules: GrammarRules, style: TextStyle, least: int, most: int | None) -> str:
    """Return the expression of a text that is counted up to `most` or, without it, up to `least` characters."""
    parts = [(size, rules.add(part)) for size, part in _list_parts(style)]
    end = literal(style.closing)
    ends = [(size, rules.add(f"{literal(style.leads[0][:1] * size)} {end}")) for size in range(2)]
    rests = [_match(rules, style)] if most is None else []  # rests[i]: what follows while i characters are left
    for left in range(len(rests), (least if most is None else most) + 1):
        needed = left if most is None else max(least - most + left, 0)
        following = [f"{part} {rests[max(left - size, 0)]}" for size, part in parts if most is None or size <= left]
        rests.append(rules.add(" | ".join([*following, *(part for size, part in ends if needed <= size <= left)])))
    return rests[-1]


def _list_parts(style: TextStyle) -> Iterator[tuple[int, str]]:
    """Yield the parts of a counted text with their sizes: a character, also after the beginning of a lead."""
    first = style.leads[0][0]
    for beginning in sorted({lead[:size] for lead in style.leads for size in range(len(lead))}):
        following = {lead[len(beginning)] for lead in style.leads if lead.startswith(beginning)}
        char = style.write_char("".join({first, *following}))
        yield len(beginning) + 1, f"{literal(beginning)} {char}" if beginning else char
        if beginning == first:
            yield 3, f"{literal(first * 2)} {char}"


def _match(rules: GrammarRules, style: TextStyle, begun: _Rests = frozenset()) -> str:
    """Return the rule of a text of any length from where these sequences have begun."""
    name, is_new = rules.reserve_once((style, begun))
    if not is_new:
        return name
    excluded = "".join(style.excluded)
    following: dict[_Rests, str] = {}
    ends = forbidden = ""
    for char in sorted({*style.closing, *excluded, *(_WHITE_SPACE if " " in excluded else "")}):
        rests = _advance(style, begun, char)
        if ("", _CLOSING) in rests:
            ends += char
        elif rests == _FORBIDDEN or char in style.escaped or (char < " " and not style.controls):
            forbidden += char
        elif rests:
            following[rests] = following.get(rests, "") + char
    listed = ends + forbidden + "".join(following.values())
    parts = [] if _needs(begun) else [f"{style.write_char(listed)} {_match(rules, style)}"]
    parts += [f"{any_of(chars)} {_match(rules, style, rests)}" for rests, chars in following.items()]
    rules.define(name, " | ".join(parts + [literal(ends)] * bool(ends)))
    return name


def _advance(style: TextStyle, begun: _Rests, char: str) -> _Rests:
    """Return what is missing of each sequence after one more character; `_FORBIDDEN` if none may follow."""
    rests: set[tuple[str, str]] = set()
    sequences = ((text, _PAIR if " " in text else _EXCLUDED) for text in style.excluded)
    for text, kind in {*begun, (style.closing, _CLOSING), *sequences}:
        if text[0] == " ":
            rests |= {(text, kind)} if char in _WHITE_SPACE else set()
            text = text[1:]
        if text[0] == char:
            rests.add((text[1:], kind))
    is_excluded = ("", _EXCLUDED) in rests and ("", _CLOSING) not in rests
    if is_excluded or (_needs(begun) and not _needs(rests)):
        return _FORBIDDEN
    if ("", _NEEDED) in rests:
        rests = {rest for rest in rests if rest[1] != _NEEDED}
    if ("", _PAIR) in rests:
        rests = {*rests - {("", _PAIR)}, *((f" {text}", _NEEDED) for text in style.unless)}
    return frozenset(rests)


def _needs(rests: Iterable[tuple[str, str]]) -> bool:
    """Tell whether the text is valid only if one of some sequences follows."""
    return any(kind == _NEEDED for _, kind in rests)
