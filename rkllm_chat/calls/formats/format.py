"""What a row of FORMATS consists of, and the literals that all formats share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .bodies import Wrapper, as_body, body_of
from .common import BodyReader
from .layout import Arguments, Layout
from .named_calls import alone_reader
from .stripped import StrippedCall, strip_layout
from .tag_syntax import TagSyntax
from .tagged_calls import group_body, tag_reader

OPEN, CLOSE = "[TOOL_CALL]", "[END_TOOL_CALL]"

CONTROL_TOKENS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|return|>",
    "<|eot|>",
    "<|eom|>",
    "<|eos|>",
    "<|role_end|>",
    "<|endofturn|>",
    "[|endofturn|]",
    "[e~[",
    "<|assistant_end|>",
    "<｜end▁of▁sentence｜>",
    "</s>",
    "<eos>",
    "</assistant>",
    "</response>",
    "<sep>",
    "<SPECIAL_12>",
    "<end_of_sentence>",
)
"""Tokens that end a turn, of all families. An engine should remove them, and some do not."""

TURN_OPENERS = (
    "<|im_start|>",
    "<|start_header_id|>",
    "<|header_start|>",
    "<|start_of_role|>",
    "<|START_OF_TURN_TOKEN|>",
    "<start_of_turn>",
    "<|turn>",
    "<|user|>",
    "<|assistant|>",
    "<|system|>",
    "<｜User｜>",
    "[INST]",
    "<|start|>user",
)
"""What begins a turn, of all families. A turn that begins after a call was not written by its author."""


@dataclass(frozen=True, eq=False)
class Format:
    """One way of writing calls.

    Attributes:
        name: Its key in `FORMATS`.
        layout: How a call is written; what it is read by and constrained to follows from it.
        wrappers: Maps further literals that begin calls to their end markers and what stands between them.
        readers: Maps literals that begin a candidate call and belong to it to the reader of what follows.
        unmarked_readers: Readers of calls without any marker.
        is_prose: Whether an opener may occur in ordinary text, so that only models of the family are listened to.
        call_ends_thought: Whether a call at the end of a thought that is never closed is meant.
        stripped_prefixes: What calls begin with without their control tokens, if the layout does not tell.
        stripped_thoughts: Maps what is left of the beginning of a thought without its control tokens to what is left of
            its end, of which `assistant` is no part of what follows; nothing if that is unknown.
        thought_markers: Maps what opens a thought to what closes it.
        control_tokens: Tokens of the family that are not shown to users.
        result_openers: Literals that begin a result: after a call, what follows them is invented by the model. A tag or
            a word counts only at the beginning of a line, since prose may mention it.
    """

    name: str
    layout: Layout
    wrappers: Mapping[str, Wrapper] = field(default_factory=dict[str, Wrapper])
    readers: Mapping[str, BodyReader] = field(default_factory=dict[str, BodyReader])
    unmarked_readers: tuple[BodyReader, ...] = ()
    is_prose: bool = False
    call_ends_thought: bool = False
    stripped_prefixes: tuple[str, ...] = ()
    stripped_thoughts: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, "tuple[str, ...]"])
    thought_markers: Mapping[str, str] = field(default_factory=dict[str, str])
    control_tokens: tuple[str, ...] = ()
    result_openers: tuple[str, ...] = ()

    @cached_property
    def openers(self) -> Mapping[str, Wrapper]:
        """Maps a literal that begins a candidate call to what follows it."""
        own = {opener: Wrapper((), (as_body(read),), is_open=False) for opener, read in self.readers.items()}
        written = self.layout.write("f", {})
        is_read = any(written.startswith(opener) for opener in own)
        return {**({} if is_read else derive_wrappers(self.layout)), **self.wrappers, **own}

    @cached_property
    def stripped_call(self) -> StrippedCall | None:
        """What is left of a call without its control tokens."""
        return strip_layout(self.layout, self.stripped_prefixes)

    @cached_property
    def closers(self) -> tuple[str, ...]:
        """End markers; a redundant one after a call is dropped."""
        further = (closer for wrapper in self.wrappers.values() for closer in wrapper.closers)
        return tuple(dict.fromkeys(mark for mark in (*self.layout.closers, *further) if "`" not in mark))

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


def derive_wrappers(layout: Layout) -> dict[str, Wrapper]:
    """Return the marks of a layout, by the literals that begin its calls, and what stands behind them."""
    opener, arguments, body = layout.opener, layout.arguments, body_of(layout)
    if not opener:
        return {}
    if isinstance(arguments, TagSyntax):
        call_opener = arguments.call_opener
        if not arguments.key_end:  # the mark of a call is part of it
            read = alone_reader(arguments) if layout.before else tag_reader(arguments)
            call = Wrapper((), (as_body(read),), is_open=False)
            block = {opener: Wrapper((layout.after.strip(),), (body,))} if layout.before else {}
            return {**block, call_opener: call}
    elif type(arguments) is Arguments and not layout.is_object:
        call_opener = layout.call_opener
    else:
        return {opener: Wrapper(layout.closers, (body,))}
    call = Wrapper(layout.closers, (body,))
    if not layout.before:
        return {call_opener: call}
    return {opener: Wrapper(layout.closers, (group_body(call_opener),)), call_opener: call}
