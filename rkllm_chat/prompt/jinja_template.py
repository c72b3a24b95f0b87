"""Jinja chat templates, from a GGUF or a file.

They render with placeholders for the texts, which are inserted afterwards as plain pieces: their content can neither
become control tokens nor be evaluated by the template.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from ..core.errors import ConfigError, ModelError
from ..core.messages import Message
from ..core.user_paths import expand_home
from .chat_templates import fold_system
from .pieces import Piece, find_controls, join_pieces, split_content
from .template_renderer import TemplateLimitError, TemplateRejectedError, render_template


class InvalidTemplateError(ModelError):
    """The template has a syntax error, or cannot be rendered."""


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

    Args:
        source: Source of the template.
        bos: Text of the BOS token.
        eos: Text of the EOS token.
        today: Date for `strftime_now`; None leaves the function undefined.

    Raises:
        InvalidTemplateError: The template has a syntax error.
        ModelError: It exceeds the limits of time and memory.
    """
    template = _JinjaTemplate(source, bos, eos, today.isoformat() if today else "")
    try:
        render_template(source, None, template.today)
    except TemplateRejectedError as error:
        raise InvalidTemplateError(f"The model's chat template is invalid: {error}.") from error
    template.sample  # noqa: B018 - a template that exceeds its limits does so here, not in a turn
    return template


def compile_usable_template(source: str, bos: str = "", eos: str = "", today: date | None = None) -> _JinjaTemplate:
    """Compile a template as `compile_template`, and see that it can render a question.

    Raises:
        InvalidTemplateError: The template has a syntax error, or cannot even render one question.
        ModelError: It exceeds the limits of time and memory.
    """
    template = compile_template(source, bos, eos, today)
    if not template.sample:
        try:
            template([Message("user", "1")])
        except TemplateLimitError:
            raise
        except ModelError as error:
            raise InvalidTemplateError(error.message) from error
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
        end_tokens = (text for text in find_controls(after_reply) if after_reply.startswith(text))
        return tuple(dict.fromkeys(text for text in (*end_tokens, self.eos) if text))

    @cached_property
    def control_tokens(self) -> tuple[str, ...]:
        """Everything in the rendered template that looks like a control token, and the BOS and EOS tokens."""
        special_texts = (piece.text for piece in self.sample if piece.special)
        return find_controls(" ".join((*special_texts, self.bos, self.eos)))

    def __call__(self, messages: Sequence[Message], thinking: bool | None = None) -> list[Piece]:
        """Render a conversation and open the assistant's turn.

        Raises:
            ModelError: The template rejects the conversation.
        """
        try:
            return self._render(messages, thinking)
        except TemplateRejectedError:  # families such as Gemma have no system role
            try:
                return self._render(fold_system(messages), thinking)
            except TemplateRejectedError as error:
                raise ModelError(f"The model's chat template rejects the conversation: {error}.") from error

    def _render(self, messages: Sequence[Message], thinking: bool | None) -> list[Piece]:
        mark = f"\ue000{secrets.token_hex(4)}."  # a template that writes one itself must not know it
        placeholders = [{"role": message.role, "content": f"{mark}{i}\ue001"} for i, message in enumerate(messages)]
        options = {} if thinking is None else {"enable_thinking": thinking}
        tokens = {"bos_token": self.bos, "eos_token": self.eos}
        variables = {"messages": placeholders, "add_generation_prompt": True, **tokens, **options}
        return _fill_placeholders(render_template(self.source, variables, self.today), mark, messages)

    @cached_property
    def sample(self) -> list[Piece]:
        """Question, reply, question as rendered; empty if the template fails."""
        try:
            return self([Message("user", "1"), Message("assistant", "2"), Message("user", "3")])
        except TemplateLimitError:
            raise
        except ModelError:
            return []


def _fill_placeholders(text: str, mark: str, messages: Sequence[Message]) -> list[Piece]:
    """Split the rendered text at its placeholders and insert the texts of the messages.

    A template can change a placeholder: one without a message stays as the template wrote it.
    """
    pieces: list[Piece] = []
    end = 0
    for match in re.finditer(f"{re.escape(mark)}([0-9]{{1,9}})\ue001", text):
        if (index := int(match[1])) < len(messages):
            pieces += [Piece(text[end : match.start()], special=True), *split_content(messages[index])]
            end = match.end()
    return join_pieces([*pieces, Piece(text[end:], special=True)])
