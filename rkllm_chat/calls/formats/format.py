"""What a row of FORMATS consists of, and the literals that all formats share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .common import BodyReader
from .render import Renderer

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
        renderer: How tools are listed and calls are written in prompts.
        openers: Maps a literal that begins a candidate call to the reader of what follows it.
        closers: End markers; a redundant one after a call is dropped.
        unmarked_readers: Readers of calls without any marker.
        is_prose: Whether an opener may occur in ordinary text, so that only models of the family are listened to.
        call_ends_thought: Whether a call at the end of a thought that is never closed is meant.
        thought_markers: Maps what opens a thought to what closes it.
        control_tokens: Tokens of the family that are not shown to users.
        result_openers: Literals that begin a result: after a call, what follows them is invented by the model. A tag or
            a word counts only at the beginning of a line, since prose may mention it.
    """

    name: str
    renderer: Renderer
    openers: Mapping[str, BodyReader] = field(default_factory=dict[str, BodyReader])
    closers: tuple[str, ...] = ()
    unmarked_readers: tuple[BodyReader, ...] = ()
    is_prose: bool = False
    call_ends_thought: bool = False
    thought_markers: Mapping[str, str] = field(default_factory=dict[str, str])
    control_tokens: tuple[str, ...] = ()
    result_openers: tuple[str, ...] = ()

    @property
    def render_tool(self) -> Callable[[str, Mapping[str, str]], str]:
        """Function that lists a tool: name and parameters (name to type; `name?` is an optional one) to text."""
        return self.renderer.render_tool

    @property
    def render_call(self) -> Callable[[str, Mapping[str, Any]], str]:
        """Function that writes a call: tool name and arguments to text."""
        return self.renderer.render_call

    @property
    def example(self) -> str:
        """Placeholder of a call for the prompt."""
        return self.renderer.example
