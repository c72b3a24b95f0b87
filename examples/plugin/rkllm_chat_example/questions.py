"""An export: the questions of a conversation, one a line: `/export questions`."""

from __future__ import annotations

from rkllm_chat.core.i18n import Words
from rkllm_chat.storage.export.turns import ExportedConversation


def render_questions(conversation: ExportedConversation, _words: Words) -> str:
    """Render what was asked."""
    return "".join(f"{turn.asked}\n" for turn in conversation.turns if turn.asked)
