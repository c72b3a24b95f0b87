"""How formats write their tags, and whether the values of a call can be read in one way only.

If a value holds an opening tag of the same call, or of another call, without its closing tag, then either a closing tag
was left out before it or the value is text about tags. The two cases cannot be told apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cache
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from .common import ReadContext
from .layout import MARK, Arguments, Layout, dump

WRONG_ENDS = ("</function_invocation>", "</function_call>", "</tool_calls>", "</tool>", "</invoke>", "</call>")
VALUE_ENDS = ("</argument>", "</parameter>", "</param>")
_MIN_SIMILARITY = 0.8
"""Ratio of difflib from which a closing tag is a misspelled one."""
_MAX_SHOWN_LENGTH = 60
_ATTRIBUTE = re.compile(r"\s(\w+)=$")
_BEHIND_VALUE = re.compile(r"[^\S\n]*\n|[^\s.,;:!?)\"'`]")
"""What follows the end tag of a value, and hardly one that a text mentions."""


class TagSyntax(Arguments):
    """Arguments in tags. In the texts, NAME, KEY, VALUE, TYPE and IS_TEXT stand for what is written there.

    A value is named by its tag, or by an element before it: `<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>`.

    Attributes:
        call: The opening tag of a call.
        value: A value between its tags, `opening` and `closing`.
        end: The closing tags of a call, `call_closers`; a line end is optional white space.
        is_escaped: Whether values are written with entities or in CDATA sections; else literally.
        is_trimmed: Whether one line end at each side does not belong to a value.
        is_common: Whether other markup has such an element. A call then stands on a line of its own outside of other
            elements, and its tag has no other attribute.
        call_opener: Opening of a call, up to its name.
        call_name: The attribute that names the tool; "" if the name follows the opening.
        name_ends: What may stand between the name of the tool and its arguments, if an attribute does not name it.
        value_openers: Openings of a value, up to its name.
        value_name: The attribute that names a value; "" if the name follows the opening, as in `<parameter=x>`.
        value_closer: Closing tag of a value.
        value_ends: Closing tags of a value, also those of other formats.
        key_end: Closing tag of an element that names the value; "" if the tag of the value does.
        tag_end: The end of an opening tag; if an element names the value, the opening tag of the value.
        wrong_ends: Closing tags of other formats that may end a call.
        following: What may follow a value.
        pairs: Patterns of a tag of a value, and of its name; with the group `close` if it is a closing one.
    """

    def __init__(
        self,
        call: str,
        value: str,
        end: str,
        also: tuple[str, ...] = (),
        is_escaped: bool = False,
        is_trimmed: bool = False,
        is_common: bool = False,
    ) -> None:
        """Derive the tags from the texts; `also` are other openings of a value that are accepted."""
        self.call, self.value, self.end = call, value, end
        self.is_escaped, self.is_trimmed, self.is_common = is_escaped, is_trimmed, is_common
        before_name, _, after_name = call.partition("NAME")
        self.call_opener, self.call_name = _split_attribute(before_name)
        self.name_ends = tuple(after_name.split())
        value_opener, self.value_name = _split_attribute(value.partition("KEY")[0])
        self.value_openers = (value_opener, *also)
        self.opening, _, self.closing = value.partition("VALUE")
        self.value_closer, self.call_closers = self.closing.strip(), tuple(end.split())
        found = re.search(r"KEY(</[^<>]+>)", value)
        self.key_end = found[1] if found else ""
        self.tag_end = re.split('KEY|"', self.opening)[-1].strip().removeprefix(self.key_end).strip()
        further = (end for end in VALUE_ENDS if end != self.value_closer and not self.key_end)
        self.value_ends = (self.value_closer, *further)
        self.wrong_ends = () if self.key_end else WRONG_ENDS
        self.following = (*self.value_openers, *self.call_closers, *self.wrong_ends)
        tag_end = re.escape(self.tag_end)
        begin = tag_end if self.key_end else rf"{re.escape(value_opener)}[^<>]*{tag_end}"
        *marks, last = re.findall(MARK, self.value_closer)
        closer = (
            re.escape(self.value_closer.removesuffix(last)) + f"(?:{re.escape(last)})?" if marks else re.escape(last)
        )
        self.pairs = [re.compile(f"{begin}|(?P<close>{closer})")]
        if self.key_end:
            self.pairs.append(re.compile(f"{re.escape(value_opener)}|(?P<close>{re.escape(self.key_end)})"))

    @property
    def example(self) -> str:
        """Placeholder of an argument for the prompt."""
        return self.open_value("...", "string").rstrip("\n") + f"...{self.closing.lstrip()}"

    def write_name(self, name: str) -> str:
        return quoteattr(name) if self.call_name else name

    def write_key(self, name: str) -> str:
        """Write the name of an argument."""
        return quoteattr(name) if self.value_name else name

    def write(self, arguments: Mapping[str, Any]) -> str:
        return "".join(self._write(key, value) for key, value in arguments.items())

    def _write(self, key: str, value: Any) -> str:
        text = value if isinstance(value, str) else dump(value)
        text = escape(text) if self.is_escaped else text
        on_lines = self.is_trimmed and not self.closing.startswith("\n") and text.strip("\r\n") != text
        edge = "\n" if on_lines else ""
        return f"{self.open_value(key, _name_type(value))}{edge}{text}{edge}{self.closing}"

    def open_value(self, key: str, type_name: str) -> str:
        """Write what precedes a value."""
        is_text = "true" if type_name == "string" else "false"
        typed = self.opening.replace("IS_TEXT", is_text).replace("TYPE", type_name)
        return typed.replace("KEY", self.write_key(key), 1)

    def sketch(self, parameters: Mapping[str, str]) -> str:
        """Write parameters, name to type; a trailing `?` marks an optional one."""
        return "".join(
            f"{self.open_value(key.removesuffix('?'), kind)}{kind}{' (optional)' * key.endswith('?')}{self.closing}"
            for key, kind in parameters.items()
        )


def _split_attribute(before_name: str) -> tuple[str, str]:
    """Split the opening of a tag from the attribute that names what it is of; "" if none does."""
    found = _ATTRIBUTE.search(before_name)
    return (before_name[: found.start()], found[1]) if found else (before_name, "")


def _name_type(value: Any) -> str:
    """Return the name that JSON Schema has for the type of a value."""
    types = {str: "string", bool: "boolean", int: "number", float: "number", dict: "object", list: "array"}
    return types.get(type(value), "null")


def tagged_call(tags: TagSyntax, before: str = "", after: str = "") -> Layout:
    """Return the layout of calls in tags, in a block if something precedes them."""
    end, line_end, further = tags.end.partition("\n")
    begin = f"{tags.call}\n" if tags.value.endswith("\n") else tags.call
    separator = None if further or not before else "" if tags.key_end else "\n"
    return Layout(f"{begin}ARGUMENTS{end}", tags, before, f"{line_end}{further}{after}", separator)


def invoke_syntax(prefix: str = "", attributes: str = "", line_end: str = "\n") -> TagSyntax:
    """Return the syntax of `<invoke name="f"><parameter name="x">v</parameter></invoke>` with a prefix in each tag."""
    value = f"<{prefix}parameter name=KEY{attributes}>VALUE</{prefix}parameter>{line_end}"
    return TagSyntax(f"<{prefix}invoke name=NAME>", value, f"</{prefix}invoke>")


def pair_syntax(call: str, end: str, prefix: str = "", suffix: str = "") -> TagSyntax:
    """Return the syntax of pairs, `<arg_key>k</arg_key><arg_value>v</arg_value>`, each tag with prefix and suffix."""
    key, value = f"{prefix}arg_key{suffix}", f"{prefix}arg_value{suffix}"
    return TagSyntax(call, f"<{key}>KEY</{key}>\n<{value}>\nVALUE\n</{value}>\n", end, is_trimmed=True)


INVOKE, MUSE, STEP3 = invoke_syntax(), invoke_syntax("atem:"), invoke_syntax("steptml:", line_end="")
SEED = TagSyntax(
    "<tool_call name=NAME>",
    "<argument name=KEY>VALUE</argument>\n",
    "</tool_call>",
    also=("<parameter", "<param"),
    is_escaped=True,
    is_trimmed=True,
)
MINICPM5 = TagSyntax(
    "<function name=NAME>",
    "<param name=KEY>VALUE</param>\n",
    "</function>",
    also=("<argument",),
    is_escaped=True,
    is_trimmed=True,
    is_common=True,
)
QWEN = TagSyntax(
    "<function=NAME>",
    "<parameter=KEY>\nVALUE\n</parameter>\n",
    "</function>\n</tool_call>",
    also=("<param=",),
    is_trimmed=True,
)
SEED_OSS = TagSyntax("<function=NAME>", "<parameter=KEY>VALUE</parameter>\n", "</function>\n</seed:tool_call>")
KIMI3 = TagSyntax(
    '<|open|>call tool=NAME index="1"<|sep|>',
    '<|open|>argument key=KEY type="TYPE"<|sep|>VALUE<|close|>argument<|sep|>',
    "<|close|>call<|sep|>",
)
GLM = pair_syntax("<tool_call>NAME", "</tool_call>")


@cache
def tokens_of(tags: TagSyntax) -> re.Pattern[str]:
    """Return the pattern of the tags of a syntax: the groups `value`, `value_end`, `call`, `call_end`, `other_end`."""

    def opening(openers: Sequence[str], attribute: str, group: str, end: str) -> str:
        named = rf"\s[^<>]*?\b{attribute}\s*=\s*[\"']?(?P<{group}>[^\"'<>]+)"
        plain = rf"(?P<{group}>[^<>\n]+){end}"
        return f"(?:{_any_of(openers)}){named if attribute else plain}"

    value = opening(tags.value_openers, tags.value_name, "value", re.escape(tags.key_end) or ">")
    call = opening((tags.call_opener,), tags.call_name, "call", "" if tags.key_end else ">")
    return re.compile(
        f"{value}|(?P<value_end>{_any_of(tags.value_ends)})|{call}|(?P<call_end>{_any_of(tags.call_closers)})"
        rf"|</(?P<other_end>[\w:.|-]{{1,40}})>(?=\s*(?:{_any_of((*tags.value_openers, *tags.call_closers))}))"
    )


def _any_of(literals: Sequence[str]) -> str:
    return "|".join(map(re.escape, literals))


def find_damaged_tag(
    sources: Sequence[tuple[str, str]], name: str, context: ReadContext, tags: TagSyntax, is_ended: bool = True
) -> str:
    """Say in one sentence where a tag may be damaged; "" if the values can be read in one way only.

    Args:
        sources: Each name and the text of its value.
        name: The called tool.
        context: Knows the tools.
        tags: The tags of the call.
        is_ended: Whether the call ends with its own closing tag; otherwise one in a value may be that.
    """
    given: set[str] = set()
    are_all_given = {*context.parameters_of(name)}.issubset(key for key, _ in sources)
    for key, text in sources:
        given.add(key)
        if "<" not in text:
            continue
        is_end_inside = not is_ended and tags.call_closers[0] in text
        if is_end_inside or _is_damaged(text, tags, are_all_given and is_ended):
            return f'In the argument "{key}", a tag of the call stands in the wrong place, or twice.'
        for match in _find_unbalanced(text, tokens_of(tags)):
            value, call, end = (match[group] for group in ("value", "call", "other_end"))
            if (
                (value and value.strip() not in given and value.strip() in context.parameters_of(name))
                or (call and context.is_known(call.strip()))
                or (end and _is_misspelled(end, tags.value_closer))
            ):
                tag = f"{match[0][:_MAX_SHOWN_LENGTH]}{'' if match[0].endswith('>') else '>'}"
                where = f"is written {tag}" if end else f"is missing before {tag}"
                return f'In the argument "{key}", the end tag {tags.value_closer} {where}.'
    return ""


def _is_damaged(text: str, tags: TagSyntax, is_whole: bool) -> bool:
    """Tell whether tags of the call, which have no counterpart in the value, may not be part of it.

    That is so at its edges; and unless `is_whole`, where the tag that followed a value may have been lost.
    """
    single = list(_find_single_tags(text, tags))
    begin, end = len(text) - len(text.lstrip()), len(text.rstrip())
    if any(match.start() == begin or match.end() == end for match in single):
        return True
    marks = tuple(re.findall(MARK, tags.value_closer)[:-1])  # a tag of several tokens may lack one
    if marks and (text.startswith(tags.tag_end, begin) or text.endswith(marks, 0, end)):
        return True
    ends = [match.end() for match in single if match.lastgroup]
    return not is_whole and any(_BEHIND_VALUE.match(text, place) for place in ends)


def _find_single_tags(text: str, tags: TagSyntax) -> Iterator[re.Match[str]]:
    """Yield the tags of a value's own kind that have no counterpart in a text."""
    for pattern in tags.pairs:
        opened: list[re.Match[str]] = []
        for match in pattern.finditer(text):
            if not match.lastgroup:
                opened.append(match)
            elif opened:
                opened.pop()
            else:
                yield match
        yield from opened


def remove_doubled_opening(text: str, key: str, tags: TagSyntax) -> str:
    """Return the text of a value without a second opening tag, if that has no closing tag of its own."""
    begin = len(text) - len(text.lstrip())
    first = next((match for match in _find_single_tags(text, tags) if match.start() == begin), None)
    is_own = first and not first.lastgroup and (first[0] == tags.tag_end or key in first[0])
    return text[first.end() :] if first and is_own else text


def _find_unbalanced(text: str, tokens: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """Yield the opening tags that are not closed in a text or outside of an example of a call, and misspelt ends."""
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
            yield from (match for _, match in open_tags[index + (opened == "call" or "call" in kinds[:index]) :])
            del open_tags[index:]
    yield from (match for _, match in open_tags)


def _is_misspelled(name: str, closer: str) -> bool:
    """Tell whether a closing tag of this name is a misspelling of another one."""
    own = closer.strip("</>")
    return name != own and SequenceMatcher(None, name, own, autojunk=False).ratio() >= _MIN_SIMILARITY
