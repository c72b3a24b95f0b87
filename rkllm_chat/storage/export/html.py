"""Export a conversation as one static HTML page: no scripts, no external resources, no active links.

All text of models, tools and servers is sanitized and escaped; the page's Content-Security-Policy permits only its own
style sheet and pictures within the page. The model's Markdown becomes headings, lists, code and tables; links remain
plain text.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from contextlib import suppress
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.i18n import Words
from ...core.messages import NOT_SHOWN, Media
from ...core.sanitize import sanitize_for_terminal, sanitize_line, shorten_line
from ..media import describe_media
from .svg_charts import Chart, draw_charts, format_seconds
from .turns import (
    AnswerText,
    CompactedHistory,
    ExportedCall,
    ExportedConversation,
    ExportedTurn,
    ReasoningText,
    TrimmedTurns,
    TurnPart,
    UnreadableCall,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_PICTURE_TYPES = ("image/png", "image/jpeg")
_MAX_SHOWN_LENGTH = 80
_MAX_RENDERED_LENGTH = 100_000
_STATUS_MARKS = {"completed": "✓", "failed": "✗", "declined": "–", "stopped": "■"}
_KANA = re.compile("[\u3040-\u30ff\uff66-\uff9f]")
_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff]")
_DISABLED_RULES = ("link", "image", "autolink", "html_inline", "html_block", "entity", "reference")


def render_html(conversation: ExportedConversation, words: Words) -> str:
    """Render the conversation as an HTML page."""
    style = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode("ascii")
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    title = escape(conversation.title)
    charts = draw_charts(conversation, words)
    footer = words("export.made", version=conversation.setup.program)
    parts = [
        f'<!doctype html>\n<html lang="{escape(words.code)}">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>",
        f"<header><h1>{title}</h1>{_render_summary(conversation, words)}</header>\n<main>",
        f"<h2>{escape(words('export.pictures'))}</h2>" if charts else "",
        f'<div class="pictures">{"".join(map(_render_chart, charts))}</div>' if charts else "",
        f"<h2>{escape(words('export.talk'))}</h2>",
        *(_render_turn(number, turn, conversation, words) for number, turn in enumerate(conversation.turns, 1)),
        f"</main>\n<footer>{escape(footer)}</footer>\n</body>\n</html>\n",
    ]
    return "\n".join(part for part in parts if part)


def _render_summary(conversation: ExportedConversation, words: Words) -> str:
    setup = conversation.setup
    summary = {
        "session": conversation.name,
        "when": f"{conversation.to_local_time(conversation.turns[0].at):%Y-%m-%d %H:%M}" if conversation.turns else "",
        "model": f"{setup.model} ({words('export.context', tokens=setup.context_tokens)})",
        "turns": str(len(conversation.turns)),
        "tools": str(len(setup.tools)),
    }
    rows = (
        f"<div><dt>{escape(words(f'export.{key}'))}</dt><dd>{_escape_line(fact)}</dd></div>"
        for key, fact in summary.items()
    )
    return f'<dl class="facts">{"".join(rows)}</dl>'


def _render_chart(chart: Chart) -> str:
    key = "".join(f'<li class="{kind}">{escape(word)}</li>' for kind, word in chart.legend)
    return (
        f'<figure><figcaption>{escape(chart.title)}</figcaption><p class="said">{escape(chart.description)}</p>'
        f'<ul class="key" aria-hidden="true">{key}</ul>{chart.render_svg()}</figure>'
    )


def _render_turn(number: int, turn: ExportedTurn, conversation: ExportedConversation, words: Words) -> str:
    moment = conversation.to_local_time(turn.at)
    time = f'<time datetime="{moment.isoformat(timespec="seconds")}">{moment:%Y-%m-%d %H:%M}</time>'
    parts = [
        f'<section class="turn">\n<h3 class="head"><span>{number}. {escape(words("export.you"))}</span>{time}</h3>',
        *(_render_media(media, words) for media in turn.media),
        f'<div class="asked"{_text_attributes(turn.asked)}>{escape(sanitize_for_terminal(turn.asked))}</div>',
        *(_render_part(part, words) for part in turn.parts),
        _render_end(turn, words),
        _render_cost(turn, words),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _render_part(part: TurnPart, words: Words) -> str:
    match part:
        case AnswerText(text):
            return f'<div class="answer"{_text_attributes(text)}>{_render_markdown(text)}</div>' if text.strip() else ""
        case ReasoningText(text):
            head = words("export.thought", count=len(text.strip()))
            return _details("thought", escape(head), escape(sanitize_for_terminal(text).strip()))
        case ExportedCall():
            return _render_call(part, words)
        case UnreadableCall(raw, detail):
            head = f'<span class="state">✗</span> {escape(words("export.unreadable"))} {_escape_line(detail)}'
            return _details("call failed", head, f"<pre>{escape(sanitize_for_terminal(raw))}</pre>")
        case TrimmedTurns(turns):
            return f'<p class="mark">{escape(words("chat.forgot", turns=turns))}</p>'
        case CompactedHistory(text):
            return _details("thought", escape(words("export.shortened")), escape(sanitize_for_terminal(text)))


def _render_call(called: ExportedCall, words: Words) -> str:
    result = called.result
    status = result.status if result else "stopped"
    arguments_json = json.dumps(dict(called.arguments), ensure_ascii=False, indent=2, default=str)
    summary = shorten_line(json.dumps(dict(called.arguments), ensure_ascii=False, default=str), _MAX_SHOWN_LENGTH)
    server = f"{result.server} · " if result and result.server else ""
    duration = f", {format_seconds(result.seconds)}" if result and result.seconds else ""
    head = (
        f'<span class="state">{_STATUS_MARKS[status]}</span> {_escape_line(server)} <b>{_escape_line(called.name)}</b>'
        f' <code>{escape(summary)}</code> <span class="took">{escape(words(f"export.{status}"))}{duration}</span>'
    )
    shown = escape(sanitize_for_terminal(arguments_json))
    body = f'<h4 class="small">{escape(words("export.arguments"))}</h4><pre>{shown}</pre>'
    if result:
        media = "".join(_render_media(media, words) for media in result.media)
        shown = result.text.replace(NOT_SHOWN, "]") if "<img " in media else result.text
        text = f"<pre{_text_attributes(shown)}>{escape(sanitize_for_terminal(shown))}</pre>"
        body += f'<h4 class="small">{escape(words("export.result"))}</h4>{text}{media}'
    return _details(f"call {status}", head, body)


def _render_media(media: Media, words: Words) -> str:
    """Show a picture within the page; name a sound, another file, and a picture that is gone."""
    caption = f"<figcaption>{_escape_line(media.name)}: {escape(describe_media(media, words))}</figcaption>"
    picture = ""
    if media.kind == "image" and media.media_type in _PICTURE_TYPES:
        with suppress(OSError):
            data = b64encode(Path(media.path).read_bytes()).decode("ascii")
            size = f'width="{media.width}" height="{media.height}"'
            picture = f'<img src="data:{media.media_type};base64,{data}" alt="{_escape_line(media.name)}" {size}>'
    return f'<figure class="media">{picture}{caption}</figure>'


def _render_end(turn: ExportedTurn, words: Words) -> str:
    """Say why the turn has no complete answer; "" if it was answered."""
    if turn.reason == "answered":
        return ""
    text = words(f"export.end_{turn.reason or 'stopped'}")
    return f'<p class="mark">{escape(text)} {_escape_line(turn.error)}</p>'


def _render_cost(turn: ExportedTurn, words: Words) -> str:
    if not any(cost.prompt_tokens for cost in turn.costs):
        return ""
    written = sum(cost.generated_tokens for cost in turn.costs)
    speed = f"{written / turn.generate_s:.1f}" if turn.generate_s else "–"
    text = words(
        "export.cost",
        read=sum(cost.prefilled_tokens for cost in turn.costs),
        held=sum(cost.reused_tokens for cost in turn.costs),
        written=written,
        speed=speed,
        model=format_seconds(turn.prefill_s + turn.generate_s),
        tools=format_seconds(turn.tools_s),
    )
    return f'<p class="cost">{escape(text)}</p>'


def _details(kind: str, head: str, body: str) -> str:
    return f'<details class="{kind}"><summary>{head}</summary><div>{body}</div></details>'


def _render_markdown(text: str) -> str:
    """Render the model's Markdown as HTML; overlong text is shown preformatted."""
    text = sanitize_for_terminal(text)
    if len(text) > _MAX_RENDERED_LENGTH:
        return f"<pre>{escape(text)}</pre>"
    parser = _markdown_parser()
    tokens = parser.parse(text)
    for token in tokens:
        # column alignment would need a style attribute, which the page's policy forbids
        token.attrs = {name: value for name, value in token.attrs.items() if name == "start"}
        if token.tag in ("h1", "h2", "h3"):
            token.tag = f"h{int(token.tag[1]) + 3}"  # below the headings of the page
    html: str = parser.renderer.render(tokens, parser.options, {})
    return html


@cache
def _markdown_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"])
    return parser.disable(list(_DISABLED_RULES))


def _text_attributes(text: str) -> str:
    """Return the `dir` and `lang` attributes of an element that contains a text.

    Han characters are drawn differently in Japanese and in Chinese; kana identify Japanese.
    """
    language = "ja" if _KANA.search(text) else "zh" if _HAN.search(text) else ""
    return ' dir="auto"' + (f' lang="{language}"' if language else "")


def _escape_line(text: str) -> str:
    return escape(sanitize_line(text))
