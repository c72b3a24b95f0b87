"""A talk is exported as Markdown, HTML and JSON: complete, and without active content."""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import timezone
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from browser import Page, open_browser
from fuzzing import examples
from pictures import draw, encode
from rkllm_chat.core import i18n as language
from rkllm_chat.core.events import Usage
from rkllm_chat.core.messages import Message, Tool, ToolResult
from rkllm_chat.core.sanitize import UNSAFE
from rkllm_chat.storage.export import EXPORTS, export_conversation
from rkllm_chat.storage.media import MediaStore
from rkllm_chat.storage.session_records import ContextTrimmed, HistoryEdited, LogEntry, Record, Setup, TurnFinished
from stage import call_text

WORDS = language.load()
SETUP = Setup("0.1", "a.gguf", "llama", "", 4096, "/home/anna/secret-folder", "", {}, (Tool("get_tide", server="h"),))
TIDE = ToolResult("h", "get_tide", {"harbour": "東京湾"}, "completed", "2.4 m\nand rising", 0.5)
GONE = ToolResult("h", "get_tide", {"harbour": "Kiel"}, "failed", "no such harbour", 0.25)
TALK: tuple[Record, ...] = (
    SETUP,
    Message("user", "How high is\nthe tide? *really*"),
    Message("assistant", "<think>Hm.</think>I look." + call_text("get_tide", harbour="東京湾")),
    Usage(100, 20, 80, 30, 1.5, 3.0, 1.6),
    Message("tool", "2.4 m\nand rising", TIDE),
    Message("assistant", call_text("get_tide", harbour="Kiel") + "[TOOL_CALL]{broken[END_TOOL_CALL]"),
    Usage(200, 130, 70, 10, 0.5, 1.0, 0.6),
    Message("tool", "no such harbour", GONE),
    Message("tool", "The tool call was not run"),
    Message("assistant", "It is **2.4 m**.\n\n# Head\n\n| a | b |\n|:-:|--:|\n| 1 | 2 |\n\n3. drei\n4. vier"),
    Usage(300, 210, 90, 20, 1.0, 2.0, 1.1),
    TurnFinished("answered"),
    Message("user", "never mind this"),
    Message("assistant", "forgotten words"),
    Usage(400, 310, 90, 20, 100.0, 2.0, 1.1),
    TurnFinished("answered"),
    HistoryEdited(7, 9),
    Message("user", "谢谢"),
    ContextTrimmed(2, 1),
    Message("assistant", "Once upon"),
    Usage(),
    TurnFinished("stopped"),
)

HOSTILE = (
    "<script>window.pwned = 1</script>",
    "<img src=x onerror='window.pwned = 1'>",
    "<svg onload=window.pwned=1>",
    "</pre></details></style></title><script>window.pwned = 1</script>",
    "[click](javascript:window.pwned=1) <javascript:window.pwned=1> <https://evil.example/a>",
    "![x](https://evil.example/x.png) ![y][r]\n\n[r]: https://evil.example/y.png",
    '" onclick="window.pwned=1" x="',
    "\u202eoverride\u2066 \x1b[31mred\x07 \x9b31m &#x202e; &lt;script&gt;",
    "```html\n<script>window.pwned = 1</script>\n```",
    '``` "><script>window.pwned=1</script>\nx\n```',
    "~~~\n```\n~~~\n<img src=http://evil.example/a>\n```\n",
    "````\n```\n````\n<img src=http://evil.example/b>\n```\n",
    "- x\n\n  ~~~\n  ```\n  ~~~\n  <img src=http://evil.example/c>\n\n> ```\n> <b>\n\n<img src=x>",
    "```\nnever closed <b>",
    "- <!--\n  ```\n  <b>\n  -->\n  ```\n  <img src=http://evil.example/d>\n  ```\n",
    "    ```\n<img src=http://evil.example/e>\n    ```\n",
    "<style>body{display:none}</style><meta http-equiv=refresh content='0;https://evil.example'>",
    "<iframe src=https://evil.example></iframe><form action=https://evil.example><button>x</button></form>",
    "| a |\n|:-:|\n| <b style='x'> |",
)


def entries_of(records: tuple[Record, ...]) -> list[LogEntry]:
    return [LogEntry(1_795_195_000.0 + 2 * number, record) for number, record in enumerate(records)]


def exported(form: str, records: tuple[Record, ...] = TALK) -> str:
    return export_conversation(form, "261120-ab12", entries_of(records), WORDS, timezone.utc)


def hostile_talk(texts: tuple[str, ...] = HOSTILE) -> tuple[Record, ...]:
    """Each text where a user, a model, a tool and a server may write one."""
    records: list[Record] = [Setup("0.1", texts[0], "x", "", 100, "", "", {}, (Tool(texts[0], texts[0]),))]
    for text in texts:
        result = ToolResult(text, text, {text: text}, "completed", text, 0.1)
        records += [
            Message("user", text),
            Message("assistant", f"<think>{text}</think>{text}\n\n" + call_text(text, x=text) + "[TOOL_CALL]{" + text),
            Usage(10, 0, 10, 10, 1.0, 1.0, 1.0),
            Message("tool", text, result),
            Message("assistant", text),
            Usage(30, 20, 10, 10, 1.0, 1.0, 1.0),
            TurnFinished("failed", text),
            HistoryEdited(0, 1, (Message("user", text),)),
        ]
    return tuple(records)


class Tags(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_json_has_the_talk_by_turns() -> None:
    document = json.loads(exported("json"))
    assert (document["session"], document["title"]) == ("261120-ab12", "How high is the tide? *really*")
    assert document["setup"]["model"] == "a.gguf" and document["setup"]["tools"][0]["name"] == "get_tide"
    first, second = document["turns"]
    assert first["parts"] == [
        {"type": "thought", "text": "Hm."},
        {"type": "text", "text": "I look."},
        {"type": "call", "name": "get_tide", "arguments": {"harbour": "東京湾"}, "result": as_json(TIDE)},
        {"type": "call", "name": "get_tide", "arguments": {"harbour": "Kiel"}, "result": as_json(GONE)},
        {"type": "unreadable_call", "raw": first["parts"][4]["raw"], "detail": first["parts"][4]["detail"]},
        {"type": "text", "text": TALK[9].text if isinstance(TALK[9], Message) else ""},
    ]
    assert (first["reason"], first["tools_s"], first["seconds"], len(first["costs"])) == ("answered", 0.75, 20.0, 3)
    assert first["at"] == "2026-11-20T17:16:42+00:00"
    assert second["asked"] == "谢谢" and second["reason"] == "stopped"
    assert second["parts"] == [{"type": "forgotten", "turns": 1}, {"type": "text", "text": "Once upon"}]
    assert "forgotten words" not in exported("json")


def as_json(result: ToolResult) -> dict[str, Any]:
    return {key: value for key, value in vars(result).items() if key != "media"}


def test_the_time_of_parallel_calls_is_the_longest() -> None:
    slow, quick = (ToolResult("h", "t", {}, "completed", "x", spent) for spent in (2.0, 0.5))
    calls = call_text("t") + call_text("t")
    records = (Message("user", "q"), Message("assistant", calls), Usage(), Message("tool", "x", quick))
    document = json.loads(exported("json", (*records, Message("tool", "x", slow))))
    assert document["turns"][0]["tools_s"] == 2.0


def test_markdown_has_the_talk_in_order() -> None:
    text = exported("md")
    assert text.startswith("# How high is the tide? \\*really\\*\n\n- Session: 261120-ab12\n- Model: a.gguf (4096 ")
    assert "## You, 2026-11-20 17:16\n\n> How high is\n> the tide? \\*really\\*\n" in text
    assert '**Call** `get_tide{"harbour": "東京湾"}`: completed, 0.5 s\n\n```text\n2.4 m\nand rising\n```' in text
    assert "It is **2.4 m**.\n\n# Head" in text
    assert text.endswith("Once upon\n\n*Stopped before it was finished.*\n")
    assert "secret-folder" not in text


def test_markdown_of_a_hostile_talk_has_no_html_and_loads_nothing() -> None:
    for text in HOSTILE:
        shown = exported("md", hostile_talk((text,)))
        page = Tags(MarkdownIt("commonmark").enable("table").render(shown))
        assert {tag for tag, _ in page.tags} <= {
            *("h1", "h2", "h3", "p", "ul", "li", "blockquote", "pre", "code", "em", "strong", "a", "br"),
            *("table", "thead", "tbody", "tr", "th", "td"),
        }
        assert not UNSAFE.search(shown.replace("\n", ""))


FENCES = ("```", "````", "~~~", "~~~~", "```html", "- ", "> ", "1. ", "  ", "    ", "\t", "\n", "\n\n", "`")
TAGS = ("<!--", "-->", "<img src=x>", "<b>", "</b>", "<script>", "![x](y)", "text", "<?", "<![CDATA[", "| a |\n|--|\n")


@pytest.mark.slow
@given(st.lists(st.sampled_from((*FENCES, *TAGS)), max_size=16).map("".join))
@settings(max_examples=examples(300))
def test_no_fence_lets_html_through_in_markdown(text: str) -> None:
    said = (Message("user", "q"), Message("assistant", text), Message("user", "r"), Message("assistant", f"<i>{text}"))
    for preset in ("commonmark", "gfm-like"):
        tokens = MarkdownIt(preset, {"html": True, "linkify": False}).parse(exported("md", said))
        kinds = {one.type for token in tokens for one in [token, *(token.children or ())]}
        assert kinds & {"html_block", "html_inline", "image"} == set()


def test_code_in_an_answer_stays_as_it_is() -> None:
    code = "1. Write:\n\n   ```html\n   <b>a</b>\n   ```\n\n~~~html\n<i>![b](c)</i>\n~~~\n\n    <u>d</u>\n\nas <s>."
    shown = exported("md", (Message("user", "q"), Message("assistant", code)))
    assert "   ```html\n   <b>a</b>\n   ```" in shown
    assert "```html\n<i>![b](c)</i>\n```" in shown and "```\n<u>d</u>\n```" in shown and "as &lt;s>." in shown


def test_a_fence_is_longer_than_any_in_the_text() -> None:
    result = ToolResult("h", "t", {}, "completed", "````\n# not a heading\n```")
    records = (Message("user", "q"), Message("assistant", call_text("t")), Message("tool", "x", result))
    rendered = MarkdownIt("commonmark").render(exported("md", records))
    assert "<h1>not a heading" not in rendered and "# not a heading" in rendered


def test_the_page_has_the_talk_with_its_calls_folded() -> None:
    page = exported("html")
    tags = Tags(page)
    assert tags.text.count("forgotten words") == 0 and "secret-folder" not in page
    folds = re.findall(r"<details class=\"(.*?)\"><summary>(.*?)</summary>", page)
    assert [kind for kind, _ in folds] == ["thought", "call completed", "call failed", "call failed"]
    assert "<strong>2.4 m</strong>" in page and "<h4>Head</h4>" in page and '<ol start="3">' in page
    assert '<html lang="en">' in page and "<title>How high is the tide? *really*</title>" in page
    assert "The context is full: 1 older turn is no longer sent to the model." in tags.text
    assert "Stopped before it was finished." in tags.text
    cost = "Prefill 240 tokens (360 more were cached), generated 60 (10.0 per second). Time: model 9.0 s, tools 0.8 s."
    assert cost in tags.text


def test_the_charts_have_titles_and_lengths_in_proportion() -> None:
    page = exported("html")
    pictures = re.findall(r"<svg .*?</svg>", page, flags=re.DOTALL)
    told = [re.findall(r'<title id="\w+-title">(.*?)</title><desc id="\w+-text">(.*?)</desc>', one) for one in pictures]
    assert [one for (one,) in told] == [
        ("Time per turn", "In 2 turns: prefill 3.0 s, generation 6.0 s, tools 0.8 s."),
        ("Context usage", "At most 320 of 4096 tokens (8 %)."),
        ("Tool usage", "2 calls of 1 tool."),
    ]
    for one in pictures:
        name = re.findall(r'id="(\w+)-title"', one)[0]
        assert f'role="img" aria-labelledby="{name}-title {name}-text"' in one
    boxes = [
        {kind: float(width) for kind, width in re.findall(r'<rect class="(\w+)"[^>]*? width="([\d.]+)"', one)}
        for one in pictures
    ]
    assert boxes[0] == {"read": pytest.approx(300 * 3 / 9.75, abs=0.1), "write": pytest.approx(300 * 6 / 9.75, abs=0.1),
                        "run": pytest.approx(300 * 0.75 / 9.75, abs=0.1)}  # fmt: skip
    assert boxes[2] == {"completed": 198.0, "failed": 198.0}
    heights = re.findall(r'<rect class="(\w+)"[^>]*? height="([\d.]+)"', pictures[1])
    assert [kind for kind, _ in heights] == ["held", "read", "write"] * 3
    assert float(heights[-2][1]) == pytest.approx(150 * 90 / 4096, abs=0.06)


@pytest.mark.parametrize(("text", "spoken"), [("水深は？", "ja"), ("水深多少？", "zh"), ("How deep?", None)])
def test_a_text_has_a_lang_attribute_where_glyphs_depend_on_it(text: str, spoken: str | None) -> None:
    tags = Tags(exported("html", (Message("user", text), Message("assistant", text), Usage())))
    blocks = {attributes.get("class"): attributes.get("lang") for _, attributes in tags.tags}
    assert (blocks["asked"], blocks["answer"]) == (spoken, spoken)


def test_times_have_the_unit_that_fits() -> None:
    spent = (0.006, 0.4, 75.2, 720.0)
    records = [Message("user", "q"), Message("assistant", call_text("t") * len(spent))]
    records += [Message("tool", "x", ToolResult("h", "t", {}, "completed", "x", one)) for one in spent]
    took = re.findall(r'<span class="took">completed, (.*?)</span>', exported("html", tuple(records)))
    assert took == ["6 ms", "0.4 s", "75 s", "12 min"]


def test_a_talk_without_times_and_tools_has_no_charts() -> None:
    page = exported("html", (Message("user", "hi"), Message("assistant", "Hello."), Usage(), TurnFinished("answered")))
    assert "<svg" not in page and "Hello." in page


ALLOWED = {
    "html", "head", "meta", "title", "style", "body", "header", "main", "footer", "section", "h1", "h2", "h3",
    "h4", "h5", "h6", "dl", "div", "dt", "dd", "p", "span", "time", "b", "code", "pre", "em", "strong", "s",
    "blockquote", "ul", "ol", "li", "br", "hr", "table", "thead", "tbody", "tr", "th", "td", "details", "summary",
    "figure", "figcaption", "svg", "desc", "rect", "line", "text",
}  # fmt: skip
ATTRIBUTES = {
    "lang", "charset", "http-equiv", "content", "name", "class", "dir", "datetime", "viewbox", "role",
    "aria-labelledby", "aria-hidden", "id", "x", "y", "x1", "x2", "y1", "y2", "width", "height", "text-anchor",
    "start",
}  # fmt: skip


@given(st.lists(st.sampled_from(HOSTILE) | st.text(max_size=60), min_size=1, max_size=4))
@settings(max_examples=examples(30))
def test_no_text_becomes_a_tag_or_an_attribute(texts: list[str]) -> None:
    page = exported("html", hostile_talk(tuple(texts)))
    tags = Tags(page)
    assert {tag for tag, _ in tags.tags} <= ALLOWED
    assert {name for _, attributes in tags.tags for name in attributes} <= ATTRIBUTES
    assert [tag for tag, _ in tags.tags if tag in ("meta", "style")] == ["meta"] * 4 + ["style"]
    assert not UNSAFE.search(page.replace("\n", ""))


def test_the_content_security_policy_allows_only_the_own_style() -> None:
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="(.*?)"', exported("html"))
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-[\w+/]{43}='; img-src data:; base-uri 'none'; form-action 'none'",
        policy,
    )


@pytest.mark.parametrize("form", EXPORTS)
def test_a_talk_of_any_records_is_exported(form: str) -> None:
    odd: tuple[Record, ...] = (
        Message("assistant", "no question"), Usage(), Message("tool", "t", TIDE), HistoryEdited(0, 9),
        TurnFinished("failed", "x"),
        ContextTrimmed(9, 1), Message("user", ""), Message("assistant", "x" * 150_000), Message("system", "s"),
        Message("user", "a" * 300),
        Message("assistant", "<think>never closed"),
        HistoryEdited(5, 2, (Message("user", "q"),)),
    )  # fmt: skip
    for size in range(len(odd) + 1):
        assert exported(form, odd[:size])


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with open_browser(tmp_path_factory.mktemp("browser")) as page:
        yield page


def colours_of(png: bytes) -> int:
    """How many different bytes there are in a picture: next to none where it is empty."""
    data = b"".join(png[at + 8 : at + 8 + size] for kind, at, size in chunks_of(png) if kind == b"IDAT")
    return len(set(zlib.decompress(data)))


def chunks_of(png: bytes) -> Iterator[tuple[bytes, int, int]]:
    at = 8
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        yield png[at + 4 : at + 8], at, size
        at += size + 12


@pytest.mark.browser
@pytest.mark.parametrize(("width", "height", "dark"), [(390, 844, True), (1280, 900, False)])
def test_a_browser_shows_the_page_and_opens_its_folds(
    browser: Page, tmp_path: Path, width: int, height: int, dark: bool
) -> None:
    path = tmp_path / "talk.html"
    path.write_text(exported("html"), encoding="utf-8")
    browser.resize(width, height, dark)
    browser.open(path)
    assert browser.asked == [path.as_uri()] and browser.complaints == []
    assert browser.look("document.documentElement.scrollWidth") <= width
    body = "getComputedStyle(document.body).backgroundColor"
    assert browser.look(body) == ("rgb(22, 24, 27)" if dark else "rgb(251, 250, 248)")
    rects = "[...document.querySelectorAll('svg rect')]"
    bars = browser.look(f"{rects}.map(r => [getComputedStyle(r).fill, r.getBoundingClientRect().width])")
    assert len(bars) == 14 and len({fill for fill, _ in bars}) >= 4 and all(wide > 0 for _, wide in bars)
    assert "rgb(0, 0, 0)" not in {fill for fill, _ in bars}
    assert colours_of(browser.photograph()) > 50
    result = "document.querySelector('details.completed pre:last-child')"
    assert not browser.look(f"{result}.checkVisibility()")
    browser.click("details.completed > summary")
    assert browser.look(f"document.querySelector('details.completed').open && {result}.checkVisibility()")
    assert browser.look(f"{result}.innerText") == "2.4 m\nand rising"
    assert "Noto Sans CJK SC" in browser.look("getComputedStyle(document.querySelector('[lang=zh]')).fontFamily")
    assert browser.look("document.querySelectorAll('a, script, img, form, iframe').length") == 0


@pytest.mark.browser
def test_no_script_runs_and_nothing_is_loaded(browser: Page, tmp_path: Path) -> None:
    safe, unsafe = tmp_path / "talk.html", tmp_path / "control.html"
    safe.write_text(exported("html", hostile_talk()), encoding="utf-8")
    browser.resize(1280, 900)
    browser.open(safe)
    assert browser.asked == [safe.as_uri()] and browser.complaints == []
    assert browser.look("window.pwned === undefined")
    assert browser.look("document.querySelectorAll('script, img, iframe, form, a').length") == 0
    assert browser.look("getComputedStyle(document.body).display") == "block"
    shown = browser.look("document.body.innerText")
    assert "<script>window.pwned = 1</script>" in shown and "\\u202eoverride" in shown
    unsafe.write_text(f"<!doctype html><body>{HOSTILE[0]}", encoding="utf-8")
    browser.open(unsafe)  # the same text does run where nothing holds it back
    assert browser.look("window.pwned === 1")


@pytest.mark.browser
def test_the_content_security_policy_blocks_scripts_and_images(browser: Page, tmp_path: Path) -> None:
    path = tmp_path / "talk.html"
    page = exported("html")
    path.write_text(page.replace("<h1>", "<script>window.pwned = 1</script><img src=talk.html><h1>"), encoding="utf-8")
    browser.open(path)
    assert browser.look("window.pwned === undefined")
    assert sum("Content Security Policy" in text for text in browser.complaints) == 2


@pytest.fixture
def pictured_talk() -> Iterator[tuple[Record, ...]]:
    """A talk with a picture of the user, and one of a tool beside a sound and a picture that is gone."""
    with MediaStore() as store:
        photo = replace(store.add(encode(draw(64, 48)), "x"), name='<b>"photo"</b>.png')
        chart = store.add(encode(draw(200, 100)), "chart")
        bell = store.add(b"RIFF\x24\0\0\0WAVEfmt ", "bell")
        result = replace(TIDE, media=(chart, bell, replace(photo, path="/nosuch", name="gone")))
        yield (
            SETUP,
            Message("user", "What is it?", media=(photo,)),
            Message("assistant", call_text("get_tide")),
            Usage(),
            Message("tool", result.text, result),
            Message("assistant", "A flag."),
            TurnFinished("answered"),
        )


def test_markdown_names_pictures_and_json_describes_them(pictured_talk: tuple[Record, ...]) -> None:
    text = exported("md", pictured_talk)
    assert '> *\\<b\\>"photo"\\</b\\>.png: image/png, 64 × 48, ' in text
    assert re.search(r"\*chart: image/png, 200 × 100, \d+ bytes\*\n\n\*bell: audio/wav, 16 bytes\*\n", text)
    (turn,) = json.loads(exported("json", pictured_talk))["turns"]
    assert [(one["media_type"], one["width"], "path" in one) for one in turn["media"]] == [("image/png", 64, False)]
    assert [one["name"] for one in turn["parts"][0]["result"]["media"]] == ["chart", "bell", "gone"]


@pytest.mark.browser
def test_a_browser_shows_the_pictures_within_the_page(
    browser: Page, tmp_path: Path, pictured_talk: tuple[Record, ...]
) -> None:
    path = tmp_path / "talk.html"
    path.write_text(exported("html", pictured_talk), encoding="utf-8")
    browser.resize(390, 844)
    browser.open(path)
    browser.click("details.completed > summary")
    assert browser.complaints == [] and {url.partition(":")[0] for url in browser.asked} <= {"file", "data"}
    assert browser.look("[...document.images].map(i => [i.complete, i.naturalWidth, i.naturalHeight, i.alt])") == [
        [True, 64, 48, '<b>"photo"</b>.png'],
        [True, 200, 100, "chart"],
    ]
    captions = browser.look("[...document.querySelectorAll('.media figcaption')].map(c => c.innerText)")
    assert [caption.partition(":")[0] for caption in captions] == ['<b>"photo"</b>.png', "chart", "bell", "gone"]
    assert browser.look("document.documentElement.scrollWidth") <= 390
    assert browser.look("document.querySelectorAll('b').length") == 1  # the name of the tool
