"""Export a conversation as Markdown that is safe to render.

The model's text stays Markdown, without HTML and without images; text of tools and servers is fenced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from ...core.events import CallUnreadable, Text, Thought
from ...core.i18n import Words
from ...core.messages import Media
from ...core.sanitize import sanitize_for_terminal, sanitize_line
from ..media import describe_media
from ..session_records import ContextTrimmed
from .turns import CompactedHistory, ExportedCall, ExportedConversation, TurnPart

_TAG_START = re.compile(r"<(?=[A-Za-z/!?])")
_LANGUAGE = re.compile(r"[\w+#.-]{1,30}")


def render_markdown(conversation: ExportedConversation, words: Words) -> str:
    """Render the conversation as Markdown."""
    return "\n\n".join(_render_pieces(conversation, words)) + "\n"


def _render_pieces(conversation: ExportedConversation, words: Words) -> Iterator[str]:
    setup = conversation.setup
    yield f"# {_escape(conversation.title)}"
    model = f"{_escape(sanitize_line(setup.model))} ({words('export.context', tokens=setup.context_tokens)})"
    yield f"- {words('export.session')}: {conversation.name}\n- {words('export.model')}: {model}"
    for turn in conversation.turns:
        yield f"## {words('export.you')}, {conversation.to_local_time(turn.at):%Y-%m-%d %H:%M}"
        asked = "\n".join([*_name_media(turn.media, words), _escape(sanitize_for_terminal(turn.asked))])
        yield _quote(asked)
        for part in turn.parts:
            if text := _render_part(part, words).strip("\n"):
                yield text
        if turn.reason and turn.reason != "answered":
            reason = f"{words(f'export.end_{turn.reason}')} {_escape(sanitize_line(turn.error))}".rstrip()
            yield f"*{reason}*"


def _render_part(part: TurnPart, words: Words) -> str:
    match part:
        case Text(text):
            return _neutralize(sanitize_for_terminal(text))
        case Thought(text):
            return f"*{words('export.thinking')}*\n\n{_quote(_escape(sanitize_for_terminal(text).strip()))}"
        case ExportedCall(name, arguments, result):
            arguments_json = sanitize_line(json.dumps(dict(arguments), ensure_ascii=False, default=str))
            head = f"**{words('export.call')}** {_inline_code(sanitize_line(name) + arguments_json)}"
            if result is None:
                return head
            duration = f", {result.seconds:.1f} s" if result.seconds else ""
            outcome = words(f"export.{result.outcome}") + duration
            named = "".join(f"\n\n{line}" for line in _name_media(result.media, words))
            return f"{head}: {outcome}\n\n{_code_block(sanitize_for_terminal(result.text))}{named}"
        case CallUnreadable(_, detail, raw):
            block = _code_block(sanitize_for_terminal(raw))
            return f"**{words('export.unreadable')}** {_escape(sanitize_line(detail))}\n\n{block}"
        case ContextTrimmed(_, turns):
            return f"*{words('chat.forgot', turns=turns)}*"
        case CompactedHistory(text):
            return f"*{words('export.shortened')}*\n\n{_quote(_escape(sanitize_for_terminal(text)))}"


def _name_media(media: Iterable[Media], words: Words) -> list[str]:
    """Return a line about each picture, sound or file, which the document does not contain."""
    return [f"*{_escape(sanitize_line(medium.name))}: {_escape(describe_media(medium, words))}*" for medium in media]


def _quote(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.strip("\n").split("\n"))


def _escape(text: str) -> str:
    """Escape all Markdown syntax in plain text."""
    return re.sub(r"([\\`*_\[\]#<>!|~&])", r"\\\1", text)


def _neutralize(text: str) -> str:
    """Neutralize HTML and images in Markdown; an image would be loaded from a URL that the model chose.

    A CommonMark parser finds the code. A block of code is written anew, because one that is not closed would change
    what the parser of a reader takes the following parts for; within lists and quotations it ends with them.
    """
    from markdown_it import MarkdownIt

    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    shown = [_TAG_START.sub("&lt;", line).replace("![", "!\\[") for line in lines]
    parser = MarkdownIt("commonmark", {"html": False})  # as the text is read once its tags are none
    for token in reversed(parser.parse("\n".join(lines))):
        if token.type not in ("fence", "code_block") or not token.map:
            continue
        start, end = token.map
        if token.level == 0:
            language = _LANGUAGE.match(token.info.strip())
            shown[start:end] = [_code_block(token.content.removesuffix("\n"), language[0] if language else ""), ""]
        else:
            inside = slice(start + 1, end - 1) if token.type == "fence" else slice(start, end)
            shown[inside] = lines[inside]
    return "\n".join(shown)


def _code_block(text: str, language: str = "text") -> str:
    """Return a code block whose fence is longer than any run of backticks in the text."""
    backticks = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{backticks}{language}\n{text}\n{backticks}"


def _inline_code(text: str) -> str:
    backticks = "`" * (1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{backticks} {text} {backticks}" if "`" in text else f"`{text}`"
