"""How formats write their tags, and whether the values of a call can be read in one way only.

If a value holds an opening tag of the same call, or of another call, without its closing tag, then either a closing tag
was left out before it or the value is text about tags. The two cases cannot be told apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache

from .common import ReadContext

WRONG_ENDS = ("</function_invocation>", "</function_call>", "</tool_calls>", "</tool>", "</invoke>", "</call>")
VALUE_ENDS = ("</argument>", "</parameter>", "</param>")
_MIN_SIMILARITY = 0.8
"""Ratio of difflib from which a closing tag is a misspelled one."""
_MAX_SHOWN_LENGTH = 60


@dataclass(frozen=True)
class TagSyntax:
    """How a format writes its tags.

    Attributes:
        call_opener: Opening of a call, up to its name.
        value_openers: Openings of a value.
        value_closer: Closing tag of a value.
        call_closers: Closing tags of a call.
        is_raw: Whether values are taken literally; else entities and CDATA sections are decoded.
        is_padded: Whether one line end at each side does not belong to a value.
        call_name: The attribute that names the tool.
        value_name: The attribute that names a value; "" if the name follows the opening, as in `<parameter=x>`.
        tag_end: The end of an opening tag.
        is_common: Whether other markup has such an element. A call then stands on a line of its own outside of other
            elements, and its tag has no other attribute.
    """

    call_opener: str
    value_openers: tuple[str, ...]
    value_closer: str
    call_closers: tuple[str, ...]
    is_raw: bool = False
    is_padded: bool = True
    call_name: str = "name"
    value_name: str = "name"
    tag_end: str = ">"
    is_common: bool = False


SEED = TagSyntax("<tool_call", ("<argument", "<parameter", "<param"), "</argument>", ("</tool_call>",))
MINICPM5 = TagSyntax("<function", ("<param", "<argument"), "</param>", ("</function>",), is_common=True)
QWEN = TagSyntax(
    "<function=",
    ("<parameter=", "<param="),
    "</parameter>",
    ("</function>", "</tool_call>"),
    is_raw=True,
    value_name="",
)

SEED_OSS = TagSyntax(
    "<function=",
    ("<parameter=",),
    "</parameter>",
    ("</function>", "</seed:tool_call>"),
    is_raw=True,
    is_padded=False,
    value_name="",
)
KIMI3 = TagSyntax(
    "<|open|>call",
    ("<|open|>argument",),
    "<|close|>argument<|sep|>",
    ("<|close|>call<|sep|>",),
    is_raw=True,
    is_padded=False,
    call_name="tool",
    value_name="key",
    tag_end="<|sep|>",
)


def invoke_syntax(prefix: str = "", is_padded: bool = False) -> TagSyntax:
    """Return the syntax of `<invoke name="f"><parameter name="x">v</parameter></invoke>` with a prefix in each tag."""
    return TagSyntax(
        f"<{prefix}invoke",
        (f"<{prefix}parameter",),
        f"</{prefix}parameter>",
        (f"</{prefix}invoke>",),
        is_raw=True,
        is_padded=is_padded,
    )


STEP3 = invoke_syntax("steptml:")


@dataclass(frozen=True)
class PairSyntax:
    """How a format writes pairs of a key and a value: `<arg_key>k</arg_key><arg_value>v</arg_value>`.

    Attributes:
        call_opener: Opening of a call, before its name.
        call_closer: Closing tag of a call.
        prefix: Text before the names of the inner tags.
        suffix: Text after them.
    """

    call_opener: str = "<tool_call>"
    call_closer: str = "</tool_call>"
    prefix: str = ""
    suffix: str = ""

    def tag(self, name: str) -> str:
        """Return the opening tag of this name."""
        return f"<{self.prefix}{name}{self.suffix}>"

    def end(self, name: str) -> str:
        """Return the closing tag of this name."""
        return f"</{self.prefix}{name}{self.suffix}>"


GLM = PairSyntax()


@cache
def tokens_of_tags(tags: TagSyntax) -> re.Pattern[str]:
    """Return the pattern of the tags of a syntax: the groups `value`, `value_end`, `call`, `call_end`, `other_end`."""

    def opening(openers: Sequence[str], attribute: str, group: str) -> str:
        name = (
            rf"\s[^<>]*?\b{attribute}\s*=\s*[\"']?(?P<{group}>[^\"'<>]+)" if attribute else rf"(?P<{group}>[^<>\n]+)>"
        )
        return f"(?:{_any_of(openers)}){name}"

    call_attribute = "" if tags.call_opener.endswith("=") else tags.call_name
    ends = (tags.value_closer, *VALUE_ENDS)
    return re.compile(
        f"{opening(tags.value_openers, tags.value_name, 'value')}|(?P<value_end>{_any_of(ends)})"
        f"|{opening((tags.call_opener,), call_attribute, 'call')}|(?P<call_end>{_any_of(tags.call_closers)})"
        rf"|</(?P<other_end>[\w:.-]{{1,40}})>(?=\s*(?:{_any_of((*tags.value_openers, *tags.call_closers))}))"
    )


@cache
def tokens_of_pairs(pairs: PairSyntax) -> re.Pattern[str]:
    """Return the pattern of the tags of a syntax, with the groups of `tokens_of_tags`."""
    key, end_key, end_value = map(re.escape, (pairs.tag("arg_key"), pairs.end("arg_key"), pairs.end("arg_value")))
    call, end_call = re.escape(pairs.call_opener), re.escape(pairs.call_closer)
    return re.compile(
        rf"{key}\s*(?P<value>[^<>]+?)\s*{end_key}|(?P<value_end>{end_value})"
        rf"|{call}\s*(?P<call>[\w./:-]+)|(?P<call_end>{end_call})"
        rf"|</(?P<other_end>[\w:.|-]{{1,40}})>(?=\s*(?:{key}|{end_call}))"
    )


def _any_of(literals: Sequence[str]) -> str:
    return "|".join(map(re.escape, literals))


def find_missing_end(
    sources: Sequence[tuple[str, str]], name: str, context: ReadContext, tokens: re.Pattern[str], closer: str
) -> str:
    """Say in one sentence where a closing tag may be missing; "" if the values can be read in one way only.

    Args:
        sources: Each name and the text of its value.
        name: The called tool.
        context: Knows the tools.
        tokens: Pattern of the tags, as of `tokens_of_tags`.
        closer: Closing tag of a value.
    """
    given: set[str] = set()
    for key, text in sources:
        given.add(key)
        if "<" not in text:
            continue
        for match in _find_unbalanced(text, tokens):
            value, call, end = (match[group] for group in ("value", "call", "other_end"))
            if (
                (value and value.strip() not in given and value.strip() in context.parameters_of(name))
                or (call and context.is_known(call.strip()))
                or (end and _is_misspelled(end, closer))
            ):
                tag = f"{match[0][:_MAX_SHOWN_LENGTH]}{'' if match[0].endswith('>') else '>'}"
                where = f"is written {tag}" if end else f"is missing before {tag}"
                return f'In the argument "{key}", the end tag {closer} {where}.'
    return ""


def _find_unbalanced(text: str, tokens: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """Yield the opening tags that are not closed in a text, and the closing tags of other names."""
    open_tags: list[tuple[str, re.Match[str]]] = []
    for match in tokens.finditer(text):
        kind = match.lastgroup or ""
        if kind == "other_end":
            yield match
        elif kind in ("value", "call"):
            open_tags.append((kind, match))
        else:
            kinds = [kind for kind, _ in open_tags]
            opened = kind.removesuffix("_end")
            index = len(kinds) - 1 - kinds[::-1].index(opened) if opened in kinds else len(kinds)
            yield from (match for _, match in open_tags[index + 1 :])
            del open_tags[index:]
    yield from (match for _, match in open_tags)


def _is_misspelled(name: str, closer: str) -> bool:
    """Tell whether a closing tag of this name is a misspelling of another one."""
    own = closer.strip("</>")
    return name != own and SequenceMatcher(None, name, own, autojunk=False).ratio() >= _MIN_SIMILARITY
