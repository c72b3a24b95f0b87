"""Chat templates: built-in ones for model families (TEMPLATES) and Jinja templates from a GGUF or a file.

A rendered prompt consists of pieces that say whether control tokens are recognized in them, so that a `<|im_end|>` in a
user's text stays ten characters and never ends a turn. Every row of TEMPLATES is append-only: prompt, reply and next
question render to text that begins with prompt and reply. Knows neither models nor tokenizers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from ..core.errors import ConfigError, ModelError
from ..core.messages import Media, Message
from ..core.sanitize import normalize_for_search
from ..core.user_paths import expand_home
from .template_renderer import TemplateLimitError, TemplateRejectedError, render_template


@dataclass(frozen=True)
class Piece:
    """A part of a prompt.

    Attributes:
        text: Its text; "" for a picture or sound.
        special: Whether the template wrote it, so that control tokens count; otherwise it is plain text.
        media: The picture or sound.
    """

    text: str
    special: bool
    media: Media | None = None


class Template(Protocol):
    """Renders a conversation and opens the assistant's turn."""

    @property
    def stop_sequences(self) -> tuple[str, ...]:
        """Texts with which the model ends its turn."""

    @property
    def control_tokens(self) -> tuple[str, ...]:
        """Control tokens that the template uses."""

    def __call__(self, messages: Sequence[Message], thinking: bool | None = None) -> list[Piece]:
        """Render a conversation.

        Args:
            messages: Messages with roles system, user and assistant.
            thinking: Turn the model's reasoning on or off; None leaves the default. Families without the switch ignore
                it.
        """


@dataclass(frozen=True)
class BuiltinTemplate:
    """Chat template of a model family.

    Attributes:
        role_delimiters: Text before and after a message, by role. The assistant's "before" also opens its turn. Without
            "system", the system text is prepended to the next user text.
        stop_sequences: Texts with which the model ends its turn.
        bos: Text at the very beginning, if the official template writes one; a runtime that adds its own BOS token
            needs it removed.
        reasoning_prefixes: Text after the opening of the assistant's turn, by the reasoning mode.
    """

    role_delimiters: Mapping[str, tuple[str, str]]
    stop_sequences: tuple[str, ...]
    bos: str = ""
    reasoning_prefixes: Mapping[bool | None, str] = field(default_factory=dict[bool | None, str])

    @property
    def control_tokens(self) -> tuple[str, ...]:
        """Control tokens that the template writes or ends with."""
        texts = (self.bos, *(text for pair in self.role_delimiters.values() for text in pair), *self.stop_sequences)
        return _find_controls(" ".join(texts))

    def __call__(self, messages: Sequence[Message], thinking: bool | None = None) -> list[Piece]:
        """Render a conversation and open the assistant's turn."""
        pieces = [Piece(self.bos, special=True)]
        for message in messages if "system" in self.role_delimiters else _fold_system(messages):
            before, after = self.role_delimiters[message.role if message.role in self.role_delimiters else "user"]
            pieces += [Piece(before, special=True), *_split_content(message), Piece(after, special=True)]
        opening = self.role_delimiters["assistant"][0] + self.reasoning_prefixes.get(thinking, "")
        return join_pieces([*pieces, Piece(opening, special=True)])


def _fold_system(messages: Sequence[Message]) -> list[Message]:
    """Prepend each system text to the user text that follows it; without one, make it a user text."""
    folded: list[Message] = []
    for message in messages:
        if folded and folded[-1].role == "system" and message.role in ("system", "user"):
            folded[-1] = _prepend_message(folded[-1], message)
        else:
            folded.append(message)
    return [replace(message, role="user") if message.role == "system" else message for message in folded]


def _prepend_message(first: Message, message: Message) -> Message:
    """Return a message that begins with the content of another one."""
    text = f"{first.text}\n\n"
    shifted = (replace(media, position=media.position + len(text)) for media in message.media)
    return replace(message, text=text + message.text, media=(*first.media, *shifted))


def _split_content(message: Message) -> list[Piece]:
    """Return the texts and media of a message."""
    return [
        Piece(part, special=False) if isinstance(part, str) else Piece("", special=False, media=part)
        for part in message.parts
    ]


def join_pieces(pieces: Iterable[Piece]) -> list[Piece]:
    """Merge neighbouring pieces of the same kind and drop empty ones."""
    joined: list[Piece] = []
    for piece in pieces:
        if not piece.text and not piece.media:
            continue
        if joined and joined[-1].special == piece.special and not (piece.media or joined[-1].media):
            joined[-1] = Piece(joined[-1].text + piece.text, piece.special)
        else:
            joined.append(piece)
    return joined


def _find_controls(text_around: str) -> tuple[str, ...]:
    """Return the distinct control tokens in text written by a template: everything in angle or square brackets."""
    candidates = re.findall(r"<[^<>\s]+>|\[[^\[\]\s]+\]", text_around)
    return tuple(dict.fromkeys(text for text in candidates if not re.search("think|tool", text, re.IGNORECASE)))


_OPENED_THOUGHT = re.compile(r"<think>\s*(?:</think>\s*)?\Z")


def find_reply_prefix(pieces: Sequence[Piece]) -> str:
    """Return the start of the reply that the prompt already contains: an open or immediately closed `<think>`.

    It is emitted as the first piece of the reply, so that parser and history see the complete reply.
    """
    match = _OPENED_THOUGHT.search(pieces[-1].text) if pieces and pieces[-1].special else None
    return match[0] if match else ""


def _same_delimiters(before: str, after: str) -> dict[str, tuple[str, str]]:
    """Return the same text around every role; `{}` is replaced by the role's name."""
    return {role: (before.format(role), after) for role in ("system", "user", "assistant")}


_CHATML = _same_delimiters("<|im_start|>{}\n", "<|im_end|>\n")
_CHATML_ENDS = ("<|im_end|>", "<|endoftext|>")
_EMPTY_REASONING = "<think>\n\n</think>\n\n"

# The official templates (tokenizer_config.json) made append-only: nothing is trimmed, reasoning stays, a system text
# is part of the first user turn, and the space that Mistral and ChatGLM3 put before a finished reply but not before an
# open one is left to the model, which writes it.
TEMPLATES: dict[str, BuiltinTemplate] = {
    # Qwen 1 to 3, SmolLM2, Hermes, InternVL 3.5, MiniCPM 3 and 4; only Qwen3 and SmolLM3 support the reasoning switch
    "chatml": BuiltinTemplate(_CHATML, _CHATML_ENDS, reasoning_prefixes={False: _EMPTY_REASONING}),
    # always opens a reasoning block; below 4B an empty one by default
    "qwen3.5": BuiltinTemplate(_CHATML, _CHATML_ENDS, reasoning_prefixes={False: _EMPTY_REASONING, True: "<think>\n"}),
    # without the dates that 3.1 and 3.2 write into the system turn
    "llama3": BuiltinTemplate(
        _same_delimiters("<|start_header_id|>{}<|end_header_id|>\n\n", "<|eot_id|>"),
        stop_sequences=("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"),
        bos="<|begin_of_text|>",
    ),
    # Gemma 1 to 3n; Gemma 4 has other tokens
    "gemma": BuiltinTemplate(
        {
            "user": ("<start_of_turn>user\n", "<end_of_turn>\n"),
            "assistant": ("<start_of_turn>model\n", "<end_of_turn>\n"),
        },
        # FunctionGemma ends a call by opening its response, which it would then invent
        stop_sequences=("<end_of_turn>", "<eos>", "<start_function_response>"),
        bos="<bos>",
    ),
    "phi3": BuiltinTemplate(_same_delimiters("<|{}|>\n", "<|end|>\n"), stop_sequences=("<|end|>", "<|endoftext|>")),
    # v3 (7B Instruct v0.3); v0.1 and v0.2 have one more space, before [/INST]
    "mistral": BuiltinTemplate(
        {"user": ("[INST] ", "[/INST]"), "assistant": ("", "</s>")}, stop_sequences=("</s>",), bos="<s>"
    ),
    "deepseek-r1": BuiltinTemplate(
        {"system": ("", ""), "user": ("<｜User｜>", ""), "assistant": ("<｜Assistant｜>", "<｜end▁of▁sentence｜>")},
        stop_sequences=("<｜end▁of▁sentence｜>",),
        bos="<｜begin▁of▁sentence｜>",
        reasoning_prefixes={None: "<think>\n", True: "<think>\n", False: _EMPTY_REASONING},
    ),
    "internlm2": BuiltinTemplate(_CHATML, stop_sequences=("<|im_end|>", "</s>"), bos="<s>"),
    # MiniCPM 1 and 2; nothing separates a reply from the next question
    "minicpm": BuiltinTemplate(
        {"system": ("", ""), "user": ("<用户>", "<AI>"), "assistant": ("", "")}, stop_sequences=("</s>", "<用户>")
    ),
    "chatglm3": BuiltinTemplate(
        {"system": ("<|system|>\n ", ""), "user": ("<|user|>\n ", ""), "assistant": ("<|assistant|>\n", "")},
        stop_sequences=("<|user|>", "<|observation|>", "</s>"),
        bos="[gMASK]sop",
    ),
    "zephyr": BuiltinTemplate(_same_delimiters("<|{}|>\n", "</s>\n"), stop_sequences=("</s>",)),
    # without the empty thought that the 31B model's template writes
    "gemma4": BuiltinTemplate(
        {
            "system": ("<|turn>system\n", "<turn|>\n"),
            "user": ("<|turn>user\n", "<turn|>\n"),
            "assistant": ("<|turn>model\n", "<turn|>\n"),
        },
        stop_sequences=("<turn|>", "<eos>", "<|tool_response>"),
        bos="<bos>",
    ),
    "phi4-mini": BuiltinTemplate(_same_delimiters("<|{}|>", "<|end|>"), stop_sequences=("<|end|>", "<|endoftext|>")),
    "phi4": BuiltinTemplate(
        _same_delimiters("<|im_start|>{}<|im_sep|>", "<|im_end|>"), stop_sequences=("<|im_end|>", "<|endoftext|>")
    ),
    "granite": BuiltinTemplate(
        _same_delimiters("<|start_of_role|>{}<|end_of_role|>", "<|end_of_text|>\n"),
        stop_sequences=("<|end_of_text|>",),
    ),
    # 3.5 and 4
    "exaone": BuiltinTemplate(
        {
            "system": ("[|system|]", "[|endofturn|]\n"),
            "user": ("[|user|]", "\n"),
            "assistant": ("[|assistant|]", "[|endofturn|]\n"),
        },
        stop_sequences=("[|endofturn|]",),
    ),
    # SmolVLM and SmolVLM2; nothing else marks the roles
    "smolvlm": BuiltinTemplate(
        {
            "system": ("System: ", "<end_of_utterance>\n"),
            "user": ("User: ", "<end_of_utterance>\n"),
            "assistant": ("Assistant:", "<end_of_utterance>\n"),
        },
        stop_sequences=("<end_of_utterance>",),
        bos="<|im_start|>",
    ),
    # the models of 0.5B to 7B
    "hunyuan": BuiltinTemplate(
        {
            "system": ("", "<｜hy_place▁holder▁no▁3｜>"),
            "user": ("<｜hy_User｜>", ""),
            "assistant": ("<｜hy_Assistant｜>", "<｜hy_place▁holder▁no▁2｜>"),
        },
        stop_sequences=("<｜hy_place▁holder▁no▁2｜>",),
        bos="<｜hy_begin▁of▁sentence｜>",
    ),
}

render_chatml = TEMPLATES["chatml"]

# Pattern of a model's name, with `-` for each blank and `_` -> row of TEMPLATES; first match wins. A
# distilled model uses the template of its tuner.
_MODEL_NAMES = (
    (r"deepseek.*(?:[.-]r1|distill|qwen)|r1-distill", "deepseek-r1"),
    (r"tinyllama|zephyr-7b", "zephyr"),
    (r"hermes|dolphin|smollm|tiny-tools|chatml|internvl", "chatml"),
    (r"minicpm-?(?:[34](?!b)|2b-128k|[vo]-?(?:2[.-]6|4))", "chatml"),
    (r"minicpm-?(?:1b|2b|2\.4b|s-1b|moe)", "minicpm"),
    (r"llama-?3(?![b\d])", "llama3"),
    (r"gemma(?!-?4)", "gemma"),
    (r"gemma-?4", "gemma4"),
    (r"phi-?3(?!\d)", "phi3"),
    (r"phi-?4-mini", "phi4-mini"),
    (r"phi-?4", "phi4"),
    (r"granite", "granite"),
    (r"exaone", "exaone"),
    (r"smolvlm", "smolvlm"),
    (r"hunyuan(?!.*a13b)", "hunyuan"),
    (r"mistral|mixtral", "mistral"),
    (r"internlm-?[23]", "internlm2"),
    (r"chatglm-?3", "chatglm3"),
    (r"qwen-?3[.-][5-9](?![\d.]*[bm])", "qwen3.5"),
    (r"qwen|qwq|marco-o1", "chatml"),
)


def choose_template(name: str, model_file: str) -> BuiltinTemplate | None:
    """Return a row of TEMPLATES by its name or an alias ("llama-3.2"); for "auto", by the name of the model file.

    Returns:
        None if no row matches: the family of an unknown model cannot be guessed.
    """
    # only a version may follow a name: "qwen.jinja" is a file
    key, pattern_format = (Path(model_file).name, ".*(?:{}).*") if name == "auto" else (name, "(?:{})[-0-9.]*")
    key = re.sub(r"[\s_]+", "-", key)
    rows = (row for pattern, row in _MODEL_NAMES if re.fullmatch(pattern_format.format(pattern), key, re.IGNORECASE))
    return TEMPLATES.get(key.casefold()) or TEMPLATES.get(next(rows, ""))


# What the name of a model says that was trained to answer, families included that exist only as such; and of one that
# was not. "Qwen3-0.6B" answers and "Qwen3-0.6B-Base" does not; "gemma-3-270m" does not and "gemma-3-270m-it" does.
_ANSWERS = re.compile(
    r"instruct|(?<![a-z])(?:it|chat|sft|dpo|rlhf|orpo|think|thinking|reasoning|assistant)(?![a-z])"
    r"|qwen-?3|qwq|phi-?[34]|smollm-?3|r1-distill|deepseek.*r1|hermes|dolphin|zephyr|chatglm|glm-?4|exaone-?[34]|tiny-tools"
    r"|minicpm|internvl|smolvlm|gpt-oss|functiongemma|hunyuan|openchat|vicuna|alpaca",
    re.IGNORECASE,
)
_CONTINUES = re.compile(r"(?<![a-z])(?:base|pt|pretrain|pretrained)(?![a-z])", re.IGNORECASE)


def find_family_template(names: Iterable[str]) -> str:
    """Return the row of TEMPLATES of a model without a template of its own; "" if its names match none.

    Args:
        names: What the model is called, most specific first.
    """
    templates = (choose_template("auto", name) for name in names if name)
    found = next(filter(None, templates), None)
    return next((row for row, template in TEMPLATES.items() if template is found), "")


def is_named_as_answering(names: Iterable[str]) -> bool:
    """Return whether the names of a model say that it was trained to answer, not only to continue texts.

    >>> [is_named_as_answering([name]) for name in ("gemma-3-270m-it", "gemma-3-270m", "Qwen3-4B", "Qwen3-4B-Base")]
    [True, False, True, False]
    """
    joined = re.sub(r"[\s_]+", "-", " ".join(names))
    return bool(_ANSWERS.search(joined)) and not _CONTINUES.search(joined)


# Control tokens of common models. `<think>`, `<tool_call>` and our `[TOOL_CALL]` are excluded: ordinary text has them.
_CONTROL_TOKEN = "|".join(
    (
        # <|im_end|>, <｜User｜>; no brackets, or it would span [/INST]; no ";", as "a <| f; x |> g" is program code
        r"<[|｜](?!\s)[^][<>\n;,()=]*(?<!\s)[|｜]>",
        r"<[|｜][^][<>\s]+>|<[^][<>\s|｜]+[|｜]>",  # <|turn> and <turn|> of Gemma 4
        r"\[\|\w+\|\]",  # [|user|] of EXAONE
        r"</?(?:s|bos|eos|pad|unk|sop|eop|AI|用户|(?:start|end)_of_(?:turn|image))>",
        r"<</?SYS>>|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]",
        r"\[[gs]?MASK\]",
    )
)


_BRACKETS = re.compile(
    "[<\\[\ufe47\ufe64\uff1c\uff3b]"
)  # every character that NFKC maps to < or [, the first character of each token


def neutralize_control_tokens(
    text: str, template: Template | None = None, is_live: Callable[[str], bool] = lambda _control: True
) -> str:
    """Break control tokens in text for a runtime without pieces: insert a space after the first character of each.

    Nothing is removed, since the rest could join to a new token.

    Args:
        text: Untrusted text.
        template: Its control tokens are broken too.
        is_live: Whether the tokenizer treats a text as a control token; others stay.
    """
    return join_text([Piece(text, special=False)], template, is_live) if _BRACKETS.search(text) else text


def neutralize_value(value: Any) -> Any:
    """Apply `neutralize_control_tokens` to all strings and keys of a JSON value."""
    if isinstance(value, str):
        return neutralize_control_tokens(value)
    if isinstance(value, Mapping):
        return {neutralize_value(key): neutralize_value(item) for key, item in value.items()}
    return [neutralize_value(item) for item in value] if isinstance(value, list | tuple) else value


def join_text(
    pieces: Iterable[Piece],
    template: Template | None = None,
    is_live: Callable[[str], bool] = lambda _control: True,
    more_controls: Sequence[str] = (),
) -> str:
    """Join pieces to one string: special ones as they are, control tokens in plain ones broken.

    Tokens that would form where a plain piece meets a special one are broken too. Arguments as for
    `neutralize_control_tokens`; `more_controls` are broken like the template's.
    """
    joined = join_pieces(pieces)
    text = "".join(piece.text for piece in joined)
    is_plain = [not piece.special for piece in joined for _ in piece.text]
    folded, positions = normalize_for_search(text)
    controls = (*(template.control_tokens if template else ()), *more_controls)
    literals = sorted({normalize_for_search(control)[0] for control in controls}, key=len, reverse=True)
    cuts: set[int] = set()
    # a lookahead, because tokens may overlap; ignoring case, because a tokenizer may lowercase the text
    pattern = re.compile(f"(?=({'|'.join([*map(re.escape, literals), _CONTROL_TOKEN])}))", re.IGNORECASE)
    for match in pattern.finditer(folded):
        start, last = positions[match.start()], positions[match.end(1) - 1]
        if not is_live(text[start : last + 1]):
            continue
        if is_plain[start]:
            cuts.add(start + 1)
        elif True in is_plain[start : last + 1]:
            cuts.add(is_plain.index(True, start))
    edges = [0, *sorted(cuts), len(text)]
    return " ".join(text[start:end] for start, end in pairwise(edges))


def read_template_file(name: str) -> str:
    """Return the text of a Jinja file; "" if there is no such file.

    Raises:
        ConfigError: It cannot be read.
    """
    path = expand_home(name)
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The template {path} cannot be read: {error}.", "Give a Jinja file in UTF-8.") from None


def compile_template(source: str, bos: str = "", eos: str = "", today: date | None = None) -> _JinjaTemplate:
    """Compile a Jinja chat template, rendered like `apply_chat_template` of `transformers` with a generation prompt.

    It renders with placeholders for the texts, which are inserted afterwards as plain pieces: their content can neither
    become control tokens nor be evaluated by the template.

    Args:
        source: Source of the template.
        bos: Text of the BOS token.
        eos: Text of the EOS token.
        today: Date for `strftime_now`; None leaves the function undefined.

    Raises:
        ModelError: The template has a syntax error, or exceeds the limits of time and memory.
    """
    template = _JinjaTemplate(source, bos, eos, today.isoformat() if today else "")
    try:
        render_template(source, None, template.today)
    except TemplateRejectedError as error:
        raise ModelError(f"The model's chat template is invalid: {error}.") from error
    template.sample  # noqa: B018 - a template that exceeds its limits does so here, not in a turn
    return template


@dataclass(frozen=True)
class _JinjaTemplate:
    """A Jinja chat template. Its control tokens and ends are determined by rendering a short conversation."""

    source: str
    bos: str
    eos: str
    today: str

    @cached_property
    def stop_sequences(self) -> tuple[str, ...]:
        """The EOS token and the control token that the template writes after a reply."""
        pieces = self.sample
        reply = Piece("2", special=False)
        after_reply = pieces[pieces.index(reply) + 1].text.lstrip() if reply in pieces[:-1] else ""
        end_tokens = (text for text in _find_controls(after_reply) if after_reply.startswith(text))
        return tuple(dict.fromkeys(text for text in (*end_tokens, self.eos) if text))

    @cached_property
    def control_tokens(self) -> tuple[str, ...]:
        """Everything in the rendered template that looks like a control token, and the BOS and EOS tokens."""
        special_texts = (piece.text for piece in self.sample if piece.special)
        return _find_controls(" ".join((*special_texts, self.bos, self.eos)))

    def __call__(self, messages: Sequence[Message], thinking: bool | None = None) -> list[Piece]:
        """Render a conversation and open the assistant's turn.

        Raises:
            ModelError: The template rejects the conversation.
        """
        try:
            return self._render(messages, thinking)
        except TemplateRejectedError:  # families such as Gemma have no system role
            try:
                return self._render(_fold_system(messages), thinking)
            except TemplateRejectedError as error:
                raise ModelError(f"The model's chat template rejects the conversation: {error}.") from error

    def _render(self, messages: Sequence[Message], thinking: bool | None) -> list[Piece]:
        placeholders = [{"role": message.role, "content": _placeholder(i)} for i, message in enumerate(messages)]
        options = {} if thinking is None else {"enable_thinking": thinking}
        tokens = {"bos_token": self.bos, "eos_token": self.eos}
        variables = {"messages": placeholders, "add_generation_prompt": True, **tokens, **options}
        return _fill_placeholders(render_template(self.source, variables, self.today), messages)

    @cached_property
    def sample(self) -> list[Piece]:
        """Question, reply, question as rendered; empty if the template fails."""
        try:
            return self([Message("user", "1"), Message("assistant", "2"), Message("user", "3")])
        except TemplateLimitError:
            raise
        except ModelError:
            return []


_PLACEHOLDER = re.compile("\ue000(\\d+)\ue001")


def _placeholder(index: int) -> str:
    return f"\ue000{index}\ue001"


def _fill_placeholders(text: str, messages: Sequence[Message]) -> list[Piece]:
    """Split the rendered text at its placeholders and insert the texts of the messages."""
    parts = _PLACEHOLDER.split(text)
    return join_pieces(
        piece
        for i, part in enumerate(parts)
        for piece in (_split_content(messages[int(part)]) if i % 2 else [Piece(part, special=True)])
    )
