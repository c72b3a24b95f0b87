"""Chat templates of model families (TEMPLATES), and which of them a model has by its name.

Every row of TEMPLATES is append-only: prompt, reply and next question render to text that begins with prompt and reply.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..core.messages import Message
from .pieces import Piece, find_controls, join_pieces, split_content


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
        return find_controls(" ".join(texts))

    def __call__(self, messages: Sequence[Message], thinking: bool | None = None) -> list[Piece]:
        """Render a conversation and open the assistant's turn."""
        pieces = [Piece(self.bos, special=True)]
        for message in messages if "system" in self.role_delimiters else fold_system(messages):
            before, after = self.role_delimiters[message.role if message.role in self.role_delimiters else "user"]
            pieces += [Piece(before, special=True), *split_content(message), Piece(after, special=True)]
        opening = self.role_delimiters["assistant"][0] + self.reasoning_prefixes.get(thinking, "")
        return join_pieces([*pieces, Piece(opening, special=True)])


def fold_system(messages: Sequence[Message]) -> list[Message]:
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
