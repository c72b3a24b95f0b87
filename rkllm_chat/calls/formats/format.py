"""What a row of FORMATS consists of, and the literals that all formats share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .common import BodyReader
from .gemma import gemma_reader
from .json_calls import json_reader
from .layout import GemmaArguments, Layout, PythonArguments
from .named_calls import named_reader
from .python_calls import python_reader
from .tag_syntax import TagSyntax
from .tagged_calls import block_reader, group_reader, pair_reader, tag_reader

OPEN, CLOSE = "[TOOL_CALL]", "[END_TOOL_CALL]"

CONTROL_TOKENS = (
    *("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>"),
    *("<|return|>", "<|eot|>", "<|eom|>", "<|eos|>", "<|role_end|>", "<|endofturn|>", "[|endofturn|]", "[e~["),
    *("<|assistant_end|>", "<｜end▁of▁sentence｜>", "</s>", "<eos>"),
    *("</assistant>", "</response>", "<sep>", "<SPECIAL_12>", "<end_of_sentence>"),
)
"""Tokens that end a turn, of all families. An engine should remove them, and some do not."""

TURN_OPENERS = (
    *("<|im_start|>", "<|start_header_id|>", "<|header_start|>", "<|start_of_role|>", "<|START_OF_TURN_TOKEN|>"),
    *("<start_of_turn>", "<|turn>", "<|user|>", "<|assistant|>", "<|system|>", "<｜User｜>", "[INST]", "<|start|>user"),
)
"""What begins a turn, of all families. A turn that begins after a call was not written by its author."""


@dataclass(frozen=True, eq=False)
class Format:
    """One way of writing calls.

    Attributes:
        name: Its key in `FORMATS`.
        layout: How a call is written; what it is read by and constrained to follows from it.
        readers: Maps further literals that begin a candidate call to the reader of what follows; one with which the
            layout begins is read by it instead.
        ends: Further end markers.
        unmarked_readers: Readers of calls without any marker.
        is_prose: Whether an opener may occur in ordinary text, so that only models of the family are listened to.
        call_ends_thought: Whether a call at the end of a thought that is never closed is meant.
        thought_markers: Maps what opens a thought to what closes it.
        control_tokens: Tokens of the family that are not shown to users.
        result_openers: Literals that begin a result: after a call, what follows them is invented by the model. A tag or
            a word counts only at the beginning of a line, since prose may mention it.
    """

    name: str
    layout: Layout
    readers: Mapping[str, BodyReader] = field(default_factory=dict[str, BodyReader])
    ends: tuple[str, ...] = ()
    unmarked_readers: tuple[BodyReader, ...] = ()
    is_prose: bool = False
    call_ends_thought: bool = False
    thought_markers: Mapping[str, str] = field(default_factory=dict[str, str])
    control_tokens: tuple[str, ...] = ()
    result_openers: tuple[str, ...] = ()

    @cached_property
    def openers(self) -> Mapping[str, BodyReader]:
        """Maps a literal that begins a candidate call to the reader of what follows it."""
        begun = f"{self.layout.before}{self.layout.call}"
        ends = (begun[len(mark) - 1 : len(mark) + 1] for mark in self.readers if begun.startswith(mark))
        is_read = any(not end.isalnum() for end in ends)  # <tool_call is no part of <tool_calls
        return {**({} if is_read else derive_readers(self.layout)), **self.readers}

    @cached_property
    def closers(self) -> tuple[str, ...]:
        """End markers; a redundant one after a call is dropped."""
        found = (mark for mark in self.layout.closers if "`" not in mark)
        return tuple(dict.fromkeys((*found, *self.ends)))

    @property
    def render_tool(self) -> Callable[[str, Mapping[str, str]], str]:
        """Function that lists a tool: name and parameters (name to type; `name?` is an optional one) to text."""
        return self.layout.sketch

    @property
    def render_call(self) -> Callable[[str, Mapping[str, Any]], str]:
        """Function that writes a call: tool name and arguments to text."""
        return self.layout.write

    @property
    def example(self) -> str:
        """Placeholder of a call for the prompt."""
        return self.layout.example


def derive_readers(layout: Layout) -> dict[str, BodyReader]:
    """Return the readers of a layout by the literals that begin its calls; none if nothing does."""
    opener, arguments, closers = layout.opener, layout.arguments, layout.closers
    if not opener:
        return {}
    match arguments:
        case TagSyntax(key_end="") if not layout.before:
            return {arguments.call_opener: tag_reader(arguments)}
        case TagSyntax(key_end=""):
            return {opener: block_reader(arguments.call_opener, tag_reader(arguments), layout.after.strip())}
        case TagSyntax():
            read, call_opener = pair_reader(arguments), arguments.call_opener
        case GemmaArguments():
            return {opener: gemma_reader(arguments.quote, closers)}
        case PythonArguments():
            return {opener: python_reader(closers)}
        case _ if layout.is_object:
            key = re.search(r'"(\w+)": ARGUMENTS', layout.call)
            return {opener: json_reader(closers, key[1] if key else "")}
        case _:
            read, call_opener = named_reader(layout), layout.call_opener
    return {opener: group_reader(call_opener), call_opener: read} if layout.before else {opener: read}
