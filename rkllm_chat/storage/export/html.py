"""Export a conversation as one plain HTML page: the Markdown export, rendered, with its pictures.

There are no scripts, no external resources and no links: Markdown that would become one stays text, and the page's
Content-Security-Policy permits only its own style sheet and pictures within the page.
"""

from __future__ import annotations

from base64 import b64encode
from contextlib import suppress
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.i18n import Words
from ...core.messages import Media
from ...core.sanitize import sanitize_for_terminal, sanitize_line
from .markdown import render_pieces
from .turns import ExportedConversation

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_PICTURE_TYPES = ("image/png", "image/jpeg")
_MAX_RENDERED_LENGTH = 100_000
_DISABLED_RULES = ("link", "image", "autolink", "reference")


def render_html(conversation: ExportedConversation, words: Words) -> str:
    """Render the conversation as an HTML page."""
    style = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode("ascii")
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    footer = words("export.made", version=sanitize_line(conversation.setup.program))
    parts = [
        f'<!doctype html>\n<html lang="{escape(words.code)}">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{escape(conversation.title)}</title>\n<style>{style}</style>\n</head>\n<body>",
    ]
    for text, media in render_pieces(conversation, words):
        parts.append(f'<div dir="auto">\n{_render_markdown(text)}</div>')
        parts += filter(None, map(_render_picture, media))
    return "\n".join((*parts, f"<footer>{escape(footer)}</footer>\n</body>\n</html>\n"))


def _render_picture(media: Media) -> str:
    """Show a picture within the page; "" for a sound, another file, and a picture that is gone."""
    if media.kind == "image" and media.media_type in _PICTURE_TYPES:
        with suppress(OSError):
            data = b64encode(Path(media.path).read_bytes()).decode("ascii")
            size = f'width="{media.width}" height="{media.height}"'
            return f'<img src="data:{media.media_type};base64,{data}" alt="{escape(sanitize_line(media.name))}" {size}>'
    return ""


def _render_markdown(text: str) -> str:
    """Render Markdown without HTML and images; overlong text is shown preformatted."""
    if len(text) > _MAX_RENDERED_LENGTH:
        return f"<pre>{escape(text)}</pre>"
    parser = _markdown_parser()
    tokens = parser.parse(text)
    for token in tokens:  # no column alignment, whose style attribute the page's policy forbids, and no class
        token.attrs = {name: value for name, value in token.attrs.items() if name == "start"}
        token.info = ""
    return sanitize_for_terminal(parser.renderer.render(tokens, parser.options, {}))  # entities may name any character


@cache
def _markdown_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"])
    return parser.disable(list(_DISABLED_RULES))
