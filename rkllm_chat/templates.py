"""How a model family wants a conversation written: TEMPLATES, and templates in Jinja (inside a GGUF, or a file).

It knows no model and no tokenizer. What comes out are pieces that say whether control tokens may be read in them,
so that a `<|im_end|>` in somebody's text stays seven characters and never ends a turn. Every row of TEMPLATES is
append-only: a prompt, the reply to it and the next question render to text that begins with prompt and reply.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn, Protocol

from .clean import fold
from .errors import ModelError
from .messages import Message


@dataclass(frozen=True)
class Piece:
    """A stretch of prompt. `special`: written by the template, control tokens count; else plain text."""

    text: str
    special: bool


class Template(Protocol):
    """Writes a conversation and opens the assistant's turn.

    `thinking` False switches a model's thinking off, True on, None leaves it its way; families without the switch
    do not mind. `ends` are the texts with which the model ends its turn, `controls` the control tokens that are known.
    """

    @property
    def ends(self) -> tuple[str, ...]: ...

    @property
    def controls(self) -> tuple[str, ...]: ...

    def __call__(self, messages: Sequence[Message], thinking: bool | None = None) -> list[Piece]: ...


@dataclass(frozen=True)
class Family:
    """A family's way to write. `around`: for each role what stands before and after a text.

    The assistant's "before" is also what opens its turn, then comes what `thoughts` has for the thinking that is asked.
    Without a "system" in `around`, the system text goes in front of the next user text. `bos` comes first where the
    official template writes one: it is part of the text, and a runtime that adds its own needs it taken off.
    """

    around: Mapping[str, tuple[str, str]]
    ends: tuple[str, ...]
    bos: str = ""
    thoughts: Mapping[bool | None, str] = field(default_factory=dict[bool | None, str])

    @property
    def controls(self) -> tuple[str, ...]:
        """The control tokens that it writes or ends with."""
        written = (self.bos, *(text for pair in self.around.values() for text in pair), *self.ends)
        return find_controls(" ".join(written))

    def __call__(self, messages: Sequence[Message], thinking: bool | None = None) -> list[Piece]:
        pieces = [Piece(self.bos, special=True)]
        for message in messages if "system" in self.around else fold_system(messages):
            before, after = self.around[message.role if message.role in self.around else "user"]
            pieces += [Piece(before, special=True), Piece(message.text, special=False), Piece(after, special=True)]
        opening = self.around["assistant"][0] + self.thoughts.get(thinking, "")
        return join_pieces([*pieces, Piece(opening, special=True)])


def fold_system(messages: Sequence[Message]) -> list[Message]:
    """Each system text in front of the user text behind it, or, where none follows, as a user text of its own."""
    folded: list[Message] = []
    for message in messages:
        if folded and folded[-1].role == "system" and message.role in ("system", "user"):
            folded[-1] = replace(message, text=f"{folded[-1].text}\n\n{message.text}")
        else:
            folded.append(message)
    return [replace(message, role="user") if message.role == "system" else message for message in folded]


def join_pieces(pieces: Iterable[Piece]) -> list[Piece]:
    """Neighbours of the same kind become one; empty ones go."""
    joined: list[Piece] = []
    for piece in pieces:
        if not piece.text:
            continue
        if joined and joined[-1].special == piece.special:
            joined[-1] = Piece(joined[-1].text + piece.text, piece.special)
        else:
            joined.append(piece)
    return joined


def find_controls(written: str) -> tuple[str, ...]:
    """The control tokens in what a template wrote around the texts, once each: all that stands in brackets there."""
    found = re.findall(r"<[^<>\s]+>|\[[^\[\]\s]+\]", written)
    return tuple(dict.fromkeys(text for text in found if not re.search("think|tool", text, re.IGNORECASE)))


_OPENED = re.compile(r"<think>\s*(?:</think>\s*)?\Z")


def opened_thought(pieces: Sequence[Piece]) -> str:
    """What the end of a prompt has already written of the reply: a `<think>`, open or closed at once.

    It is given out as the first piece of the reply, so that whoever reads it knows where the reply begins, and so that
    the reply stands in the history with it.
    """
    opened = _OPENED.search(pieces[-1].text) if pieces and pieces[-1].special else None
    return opened[0] if opened else ""


def tagged(before: str, after: str) -> dict[str, tuple[str, str]]:
    """The same around every role, whose name goes in at the `{}`."""
    return {role: (before.format(role), after) for role in ("system", "user", "assistant")}


CHATML = tagged("<|im_start|>{}\n", "<|im_end|>\n")
CHATML_ENDS = ("<|im_end|>", "<|endoftext|>")
NO_THOUGHT = "<think>\n\n</think>\n\n"

# The official templates (tokenizer_config.json), so written that the text only grows at its end: nothing is trimmed,
# thoughts stay, a system text goes into the first user turn, and the blank that Mistral and ChatGLM3 have before a
# finished reply, not before an open one, is left to the model, which writes it.
TEMPLATES: dict[str, Family] = {
    # Qwen 1 to 3, SmolLM2, Hermes, MiniCPM 3 and 4; of these only Qwen3 (and SmolLM3) know the switch
    "chatml": Family(CHATML, CHATML_ENDS, thoughts={False: NO_THOUGHT}),
    # opens a thought either way, an empty one by default below 4B
    "qwen3.5": Family(CHATML, CHATML_ENDS, thoughts={False: NO_THOUGHT, True: "<think>\n"}),
    # without the dates that 3.1 and 3.2 write into the system turn
    "llama3": Family(
        tagged("<|start_header_id|>{}<|end_header_id|>\n\n", "<|eot_id|>"),
        ends=("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"),
        bos="<|begin_of_text|>",
    ),
    # Gemma 1 to 3n; Gemma 4 has other tokens
    "gemma": Family(
        {
            "user": ("<start_of_turn>user\n", "<end_of_turn>\n"),
            "assistant": ("<start_of_turn>model\n", "<end_of_turn>\n"),
        },
        # FunctionGemma ends its calls by opening their response, and would go on to invent it
        ends=("<end_of_turn>", "<eos>", "<start_function_response>"),
        bos="<bos>",
    ),
    "phi3": Family(tagged("<|{}|>\n", "<|end|>\n"), ends=("<|end|>", "<|endoftext|>")),
    # v3 (7B Instruct v0.3); v0.1 and v0.2 have one blank more, before [/INST]
    "mistral": Family({"user": ("[INST] ", "[/INST]"), "assistant": ("", "</s>")}, ends=("</s>",), bos="<s>"),
    "deepseek-r1": Family(
        {"system": ("", ""), "user": ("<｜User｜>", ""), "assistant": ("<｜Assistant｜>", "<｜end▁of▁sentence｜>")},
        ends=("<｜end▁of▁sentence｜>",),
        bos="<｜begin▁of▁sentence｜>",
        thoughts={None: "<think>\n", True: "<think>\n", False: NO_THOUGHT},
    ),
    "internlm2": Family(CHATML, ends=("<|im_end|>", "</s>"), bos="<s>"),
    # MiniCPM 1 and 2; its history has nothing between a reply and the next question
    "minicpm": Family({"system": ("", ""), "user": ("<用户>", "<AI>"), "assistant": ("", "")}, ends=("</s>", "<用户>")),
    "chatglm3": Family(
        {"system": ("<|system|>\n ", ""), "user": ("<|user|>\n ", ""), "assistant": ("<|assistant|>\n", "")},
        ends=("<|user|>", "<|observation|>", "</s>"),
        bos="[gMASK]sop",
    ),
    "zephyr": Family(tagged("<|{}|>\n", "</s>\n"), ends=("</s>",)),
}

render_chatml = TEMPLATES["chatml"]

# What a model's name says, first match counts: a distilled or tuned model is written like its teacher or tuner.
NAMES = (
    (r"deepseek.*(?:[-_.]r1|distill|qwen)|r1[-_]distill", "deepseek-r1"),
    (r"tinyllama|zephyr[-_]7b", "zephyr"),
    (r"hermes|dolphin|smollm|tiny-tools|chatml", "chatml"),
    (r"minicpm[-_]?(?:[34](?!b)|2b[-_]128k|[vo][-_]?(?:2[._]6|4))", "chatml"),
    (r"minicpm[-_]?(?:1b|2b|2\.4b|s[-_]1b|moe)", "minicpm"),
    (r"llama[-_]?3(?![b\d])", "llama3"),
    (r"gemma(?![-_]?4)", "gemma"),
    (r"phi[-_]?3(?!\d)", "phi3"),
    (r"mistral|mixtral", "mistral"),
    (r"internlm[-_]?[23]", "internlm2"),
    (r"chatglm[-_]?3", "chatglm3"),
    (r"qwen[-_]?3\.[5-9]", "qwen3.5"),
    (r"qwen|qwq|marco-o1", "chatml"),
)


def choose_template(name: str, model_file: str) -> Family | None:
    """The row of TEMPLATES with that name or meant by it (as "llama-3.2"); for "auto", by the name of the model's file.

    None if no row is meant: which family an unknown model is of cannot be guessed.
    """
    # behind a name only a version may follow: "qwen.jinja" is no name of ours
    asked, around = (Path(model_file).name, ".*(?:{}).*") if name == "auto" else (name, "(?:{})[-0-9.]*")
    rows = (row for pattern, row in NAMES if re.fullmatch(around.format(pattern), asked, re.IGNORECASE))
    return TEMPLATES.get(asked.casefold()) or TEMPLATES.get(next(rows, ""))


# What models take for control tokens. `<think>`, `<tool_call>` and our `[TOOL_CALL]` are words: talk is full of them.
SHAPES = "|".join(
    (
        # <|im_end|>, <｜User｜>; brackets inside would let it reach over [/INST], and "a <| f; x |> g" is a program
        r"<[|｜](?!\s)[^][<>\n;,()=]*(?<!\s)[|｜]>",
        r"<[|｜][^][<>\s]+>|<[^][<>\s|｜]+[|｜]>",  # <|turn> and <turn|> of Gemma 4
        r"\[\|\w+\|\]",  # [|user|] of EXAONE
        r"</?(?:s|bos|eos|pad|unk|sop|eop|AI|用户|(?:start|end)_of_(?:turn|image))>",
        r"<</?SYS>>|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]",
        r"\[[gs]?MASK\]",
    )
)


_BRACKETS = re.compile("[<\\[\ufe47\ufe64\uff1c\uff3b]")  # all that NFKC makes < or [, with which each of them begins


def harmless(
    text: str, template: Template | None = None, is_live: Callable[[str], bool] = lambda _control: True
) -> str:
    """The text with a blank in each control token, behind its first character, for a runtime that knows no pieces.

    Broken is all that has one of SHAPES, and what the template knows beside, as far as it `is_live`. Nothing is ever
    taken away: what is left could close up to a new one.
    """
    return join_text([Piece(text, special=False)], template, is_live) if _BRACKETS.search(text) else text


def harmless_value(value: Any) -> Any:
    """A JSON value with all its texts and keys harmless."""
    if isinstance(value, str):
        return harmless(value)
    if isinstance(value, Mapping):
        return {harmless_value(key): harmless_value(item) for key, item in value.items()}
    return [harmless_value(item) for item in value] if isinstance(value, list | tuple) else value


def join_text(
    pieces: Iterable[Piece], template: Template | None = None, is_live: Callable[[str], bool] = lambda _control: True
) -> str:
    """The prompt as one string: special pieces as they are, plain ones harmless, also where one meets the other."""
    joined = join_pieces(pieces)
    text = "".join(piece.text for piece in joined)
    is_plain = [not piece.special for piece in joined for _ in piece.text]
    folded, places = fold(text)
    controls = template.controls if template else ()
    literals = sorted({fold(control)[0] for control in controls}, key=len, reverse=True)
    cuts: set[int] = set()
    # a look ahead, because tokens may begin inside another; in any case, because a tokenizer may lower it
    pattern = re.compile(f"(?=({'|'.join([*map(re.escape, literals), SHAPES])}))", re.IGNORECASE)
    for match in pattern.finditer(folded):
        start, last = places[match.start()], places[match.end(1) - 1]
        if not is_live(text[start : last + 1]):
            continue
        if is_plain[start]:
            cuts.add(start + 1)
        elif True in is_plain[start : last + 1]:
            cuts.add(is_plain.index(True, start))
    edges = [0, *sorted(cuts), len(text)]
    return " ".join(text[start:end] for start, end in pairwise(edges))


def jinja_template(source: str, bos: str = "", eos: str = "", today: date | None = None) -> JinjaTemplate:
    """A template in Jinja as `transformers` would render it (apply_chat_template, add_generation_prompt).

    It is rendered with a mark in place of each text, and the texts are put in afterwards as plain pieces: what they
    hold can neither be taken for control tokens nor run in the template. Raises ModelError if it cannot be used.
    """
    from jinja2 import TemplateError

    try:
        compiled = make_environment(today).from_string(source)
    except TemplateError as error:
        raise ModelError(f"The model's chat template cannot be read: {error}.") from error
    return JinjaTemplate(compiled, bos, eos)


@dataclass(frozen=True)
class JinjaTemplate:
    """A template that is somebody's program. Its control tokens and ends are read off a short talk that it renders."""

    compiled: Any
    bos: str
    eos: str

    @cached_property
    def ends(self) -> tuple[str, ...]:
        """The end token, and the control token that it writes behind a reply."""
        pieces = self._try_out()
        reply = Piece("2", special=False)
        behind = pieces[pieces.index(reply) + 1].text.lstrip() if reply in pieces[:-1] else ""
        written = (text for text in find_controls(behind) if behind.startswith(text))
        return tuple(dict.fromkeys(text for text in (*written, self.eos) if text))

    @cached_property
    def controls(self) -> tuple[str, ...]:
        """All that looks like a control token in what it writes, and the tokens of begin and end."""
        written = (piece.text for piece in self._try_out() if piece.special)
        return find_controls(" ".join((*written, self.bos, self.eos)))

    def __call__(self, messages: Sequence[Message], thinking: bool | None = None) -> list[Piece]:
        from jinja2 import TemplateError

        # a template may also add a number to a text or count too far
        broken = (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)
        try:
            return self._render(messages, thinking)
        except broken:  # families such as Gemma have no system role
            try:
                return self._render(fold_system(messages), thinking)
            except broken as error:
                raise ModelError(f"The model's chat template turns the conversation down: {error}.") from error

    def _render(self, messages: Sequence[Message], thinking: bool | None) -> list[Piece]:
        marked = [{"role": message.role, "content": mark(i)} for i, message in enumerate(messages)]
        options = {} if thinking is None else {"enable_thinking": thinking}
        words = {"bos_token": self.bos, "eos_token": self.eos, **options}
        return fill_marks(self.compiled.render(messages=marked, add_generation_prompt=True, **words), messages)

    def _try_out(self) -> list[Piece]:
        """A question, a reply, a question; nothing if the template cannot do even that."""
        try:
            return self([Message("user", "1"), Message("assistant", "2"), Message("user", "3")])
        except ModelError:
            return []


def make_environment(today: date | None) -> Any:
    """What templates may use; they are somebody's program, so they run in a sandbox."""
    from jinja2 import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def raise_exception(message: str) -> NoReturn:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
    environment.globals["raise_exception"] = raise_exception
    if today:
        environment.globals["strftime_now"] = today.strftime
    return environment


_MARK = re.compile("\ue000(\\d+)\ue001")


def mark(index: int) -> str:
    return f"\ue000{index}\ue001"


def fill_marks(text: str, messages: Sequence[Message]) -> list[Piece]:
    """The rendered text cut at its marks, each mark replaced by the text of its message."""
    parts = _MARK.split(text)
    return join_pieces(
        Piece(messages[int(part)].text, special=False) if i % 2 else Piece(part, special=True)
        for i, part in enumerate(parts)
    )
