"""A talk as one page that a browser shows without a network: it runs nothing, loads nothing and has no live link.

All that models, tools and servers wrote is made safe by `clean` and escaped; the page's own policy forbids everything
but the one style sheet inside it. The model's Markdown becomes headings, lists, code and tables; the links in it stay
the text that they are.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from ..clean import clean, clean_line
from ..language import Words
from .pictures import Picture, draw, seconds
from .turns import Called, Forgotten, Part, Said, Shortened, Thinking, Told, Turn, Unreadable

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

LONGEST_SHOWN = 80
LONGEST_RENDERED = 100_000
STATE_MARKS = {"completed": "✓", "failed": "✗", "declined": "–", "stopped": "■"}
KANA = re.compile("[\u3040-\u30ff\uff66-\uff9f]")
HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff]")
LIVE = ("link", "image", "autolink", "html_inline", "html_block", "entity", "reference")


def write_page(told: Told, words: Words) -> str:
    style = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode("ascii")
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    title = escape(told.title)
    pictures = draw(told, words)
    parts = [
        f'<!doctype html>\n<html lang="{escape(words.code)}">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>",
        f"<header><h1>{title}</h1>{tell_facts(told, words)}</header>\n<main>",
        f"<h2>{escape(words('export.pictures'))}</h2>" if pictures else "",
        f'<div class="pictures">{"".join(map(frame, pictures))}</div>' if pictures else "",
        f"<h2>{escape(words('export.talk'))}</h2>",
        *(tell_turn(number, turn, told, words) for number, turn in enumerate(told.turns, 1)),
        f"</main>\n<footer>{escape(words('export.made', version=told.setup.program))}</footer>\n</body>\n</html>\n",
    ]
    return "\n".join(part for part in parts if part)


def tell_facts(told: Told, words: Words) -> str:
    setup = told.setup
    facts = {
        "session": told.name,
        "when": f"{told.moment(told.turns[0].at):%Y-%m-%d %H:%M}" if told.turns else "",
        "model": f"{setup.model} ({words('export.context', tokens=setup.context_tokens)})",
        "turns": str(len(told.turns)),
        "tools": str(len(setup.tools)),
    }
    rows = (f"<div><dt>{escape(words(f'export.{key}'))}</dt><dd>{safe(fact)}</dd></div>" for key, fact in facts.items())
    return f'<dl class="facts">{"".join(rows)}</dl>'


def frame(picture: Picture) -> str:
    key = "".join(f'<li class="{kind}">{escape(word)}</li>' for kind, word in picture.key)
    return (
        f'<figure><figcaption>{escape(picture.title)}</figcaption><p class="said">{escape(picture.text)}</p>'
        f'<ul class="key" aria-hidden="true">{key}</ul>{picture.svg()}</figure>'
    )


def tell_turn(number: int, turn: Turn, told: Told, words: Words) -> str:
    moment = told.moment(turn.at)
    time = f'<time datetime="{moment.isoformat(timespec="seconds")}">{moment:%Y-%m-%d %H:%M}</time>'
    parts = [
        f'<section class="turn">\n<h3 class="head"><span>{number}. {escape(words("export.you"))}</span>{time}</h3>',
        f'<div class="asked"{direct(turn.asked)}>{escape(clean(turn.asked))}</div>',
        *(tell_part(part, words) for part in turn.parts),
        tell_end(turn, words),
        tell_cost(turn, words),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def tell_part(part: Part, words: Words) -> str:
    match part:
        case Said(text):
            return f'<div class="answer"{direct(text)}>{render(text)}</div>' if text.strip() else ""
        case Thinking(text):
            head = words("export.thought", count=len(text.strip()))
            return fold("thought", escape(head), escape(clean(text).strip()))
        case Called():
            return tell_call(part, words)
        case Unreadable(raw, detail):
            head = f'<span class="state">✗</span> {escape(words("export.unreadable"))} {safe(detail)}'
            return fold("call failed", head, f"<pre>{escape(clean(raw))}</pre>")
        case Forgotten(turns):
            return f'<p class="mark">{escape(words("chat.forgot", turns=turns))}</p>'
        case Shortened(text):
            return fold("thought", escape(words("export.shortened")), escape(clean(text)))


def tell_call(called: Called, words: Words) -> str:
    result = called.result
    status = result.status if result else "stopped"
    written = json.dumps(dict(called.arguments), ensure_ascii=False, indent=2, default=str)
    shown = clean_line(json.dumps(dict(called.arguments), ensure_ascii=False, default=str))
    shown = shown if len(shown) <= LONGEST_SHOWN else shown[:LONGEST_SHOWN] + "…"
    server = f"{result.server} · " if result and result.server else ""
    took = f", {seconds(result.seconds)}" if result and result.seconds else ""
    head = (
        f'<span class="state">{STATE_MARKS[status]}</span> {safe(server)} <b>{safe(called.name)}</b>'
        f' <code>{escape(shown)}</code> <span class="took">{escape(words(f"export.{status}"))}{took}</span>'
    )
    body = f'<h4 class="small">{escape(words("export.arguments"))}</h4><pre>{escape(clean(written))}</pre>'
    if result:
        text = f"<pre{direct(result.text)}>{escape(clean(result.text))}</pre>"
        body += f'<h4 class="small">{escape(words("export.result"))}</h4>{text}'
    return fold(f"call {status}", head, body)


def tell_end(turn: Turn, words: Words) -> str:
    """Why a turn has no whole answer; nothing for one that was answered."""
    if turn.reason == "answered":
        return ""
    text = words(f"export.end_{turn.reason or 'stopped'}")
    return f'<p class="mark">{escape(text)} {safe(turn.error)}</p>'


def tell_cost(turn: Turn, words: Words) -> str:
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
        model=seconds(turn.prefill_s + turn.generate_s),
        tools=seconds(turn.tools_s),
    )
    return f'<p class="cost">{escape(text)}</p>'


def fold(kind: str, head: str, body: str) -> str:
    return f'<details class="{kind}"><summary>{head}</summary><div>{body}</div></details>'


def render(text: str) -> str:
    """The model's Markdown as HTML; a very long text as it stands."""
    text = clean(text)
    if len(text) > LONGEST_RENDERED:
        return f"<pre>{escape(text)}</pre>"
    reader = make_reader()
    tokens = reader.parse(text)
    for token in tokens:
        # an alignment would be a style, which the page's policy forbids
        token.attrs = {name: value for name, value in token.attrs.items() if name == "start"}
        if token.tag in ("h1", "h2", "h3"):
            token.tag = f"h{int(token.tag[1]) + 3}"  # below the headings of the page
    html: str = reader.renderer.render(tokens, reader.options, {})
    return html


@cache
def make_reader() -> MarkdownIt:
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"])
    return reader.disable(list(LIVE))


def direct(text: str) -> str:
    """Attributes of an element that holds a text: its direction, and its language where the glyphs depend on it.

    The same Han character is drawn differently in Japanese and in Chinese; kana tell which it is.
    """
    spoken = "ja" if KANA.search(text) else "zh" if HAN.search(text) else ""
    return ' dir="auto"' + (f' lang="{spoken}"' if spoken else "")


def safe(text: str) -> str:
    return escape(clean_line(text))
