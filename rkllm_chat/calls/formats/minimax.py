"""MiniMax M3: a tag for each value, named like it, at any depth; each tag begins with a special token."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import quoteattr

from ...core.events import CallFound
from ...core.messages import ToolCall
from ..incremental_reader import Parsing, Reader
from ..json_repair import MAX_DEPTH
from .common import ParsedCalls, ReadContext, unreadable_call
from .layout import Arguments, Layout, dump

MINIMAX_TOKEN = "]<]minimax[>["
_END = f"{MINIMAX_TOKEN}</invoke>"
_TAG = re.compile(rf"{re.escape(MINIMAX_TOKEN)}\s*<(/?)([^<>]+)>")
_NAME = re.compile(r"""\s+name\s*=\s*["']([^"'<>]+)["']\s*""")
_END_OF_TAG = re.compile("[<>]")


class NestedTags(Arguments):
    """Arguments as elements at any depth, each named like its value."""

    @property
    def example(self) -> str:
        """Placeholder of arguments for the prompt."""
        return self.write({"...": "..."})

    def write_name(self, name: str) -> str:
        return quoteattr(name)

    def write(self, arguments: Mapping[str, Any]) -> str:
        return "".join(self._write(key, value) for key, value in arguments.items())

    def _write(self, name: str, value: Any) -> str:
        if isinstance(value, list | tuple):
            inner = "".join(self._write("item", item) for item in value)
        else:
            inner = (
                self.write(value) if isinstance(value, Mapping) else value if isinstance(value, str) else dump(value)
            )
        return f"{MINIMAX_TOKEN}<{name}>{inner}{MINIMAX_TOKEN}</{name}>"

    def sketch(self, parameters: Mapping[str, str]) -> str:
        """Write parameters, name to type."""
        return self.write(
            {key.removesuffix("?"): f"{kind}{' (optional)' * key.endswith('?')}" for key, kind in parameters.items()}
        )


def read_minimax(reader: Reader, _context: ReadContext) -> Parsing[ParsedCalls]:
    """Read what follows the token and `<invoke`: ` name="f">`, the values, and the closing tag.

    An element is an object, or a list of `<item>` elements, if it has elements; else text.
    """
    name = _NAME.fullmatch((yield from reader.read_up_to(_END_OF_TAG)))
    if not name or not (yield from reader.skip(">")):
        return None
    reader.commit()
    body = yield from reader.read_through(_END)
    try:
        arguments = _parse_element(body)
    except ValueError as error:
        return unreadable_call("bad_xml", f"The arguments cannot be read: {error}.")
    if not isinstance(arguments, dict):
        if arguments.strip() if isinstance(arguments, str) else arguments:
            return unreadable_call("bad_xml", "Each argument is an element with the argument's name.")
        arguments = {}
    return [CallFound(ToolCall(name[1].strip(), arguments))]


def _parse_element(body: str) -> Any:
    """Parse the content of an element.

    Raises:
        ValueError: The tags are not balanced or nested too deep.
    """
    stack: list[tuple[str, list[tuple[str, Any]]]] = [("", [])]
    end_of_last = 0
    for match in _TAG.finditer(body):
        is_end, tag = match[1], match[2].strip()
        text, end_of_last = body[end_of_last : match.start()], match.end()
        if not is_end:
            stack.append((tag, []))
            if len(stack) > MAX_DEPTH:
                raise ValueError(f"they are nested deeper than {MAX_DEPTH} levels")
            continue
        name, children = stack.pop()
        if name != tag or not stack:
            raise ValueError(f"</{tag[:40]}> closes nothing")
        is_doubled = not children and text.lstrip().startswith((f"<{tag}>", MINIMAX_TOKEN))
        if is_doubled or text.endswith(MINIMAX_TOKEN):
            raise ValueError(f"a tag of <{tag[:40]}> stands twice")
        stack[-1][1].append((tag, _build_value(children) if children else text))
    if len(stack) > 1:
        raise ValueError(f"<{stack[-1][0][:40]}> is not closed")
    return _build_value(stack[0][1]) if stack[0][1] else body


def _build_value(children: list[tuple[str, Any]]) -> Any:
    """Return the list of `<item>` elements, or an object in which a repeated name becomes a list."""
    if all(name == "item" for name, _ in children):
        return [value for _, value in children]
    values: dict[str, list[Any]] = {}
    for name, value in children:
        values.setdefault(name, []).append(value)
    return {name: found[0] if len(found) == 1 else found for name, found in values.items()}


MINIMAX = Layout(
    f"{MINIMAX_TOKEN}<invoke name=NAME>ARGUMENTS{MINIMAX_TOKEN}</invoke>",
    NestedTags(),
    before=f"{MINIMAX_TOKEN}<tool_call>\n",
    after=f"\n{MINIMAX_TOKEN}</tool_call>",
)
