"""A talk is exported as Markdown and JSON: complete, and without active content."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timezone
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

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


def exported(format_name: str, records: tuple[Record, ...] = TALK) -> str:
    return export_conversation(format_name, "261120-ab12", entries_of(records), WORDS, timezone.utc)


def hostile_talk(texts: tuple[str, ...] = HOSTILE) -> tuple[Record, ...]:
    """Each text where a user, a model, a tool and a server may write one."""
    records: list[Record] = [
        Setup(texts[0], texts[0], texts[0], texts[0], 100, "", "", {}, (Tool(texts[0], texts[0]),))
    ]
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
    """The names of the tags of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, _attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)


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
        {"type": "unreadable_call", **{key: first["parts"][4][key] for key in ("fault", "detail", "raw")}},
        {"type": "text", "text": TALK[9].text if isinstance(TALK[9], Message) else ""},
    ]
    assert (first["reason"], first["tools_s"], first["seconds"], len(first["costs"])) == ("answered", 0.75, 20.0, 3)
    assert first["at"] == "2026-11-20T17:16:42+00:00"
    assert second["asked"] == "谢谢" and second["reason"] == "stopped"
    assert second["parts"] == [
        {"type": "forgotten", "first_shown": 2, "turns": 1, "retained_count": 0},
        {"type": "text", "text": "Once upon"},
    ]
    assert "forgotten words" not in exported("json")


def as_json(result: ToolResult) -> dict[str, Any]:
    return {key: value for key, value in vars(result).items() if key not in ("media", "decline_reason")}


def test_a_discarded_reply_is_in_no_export() -> None:
    talk = (
        SETUP,
        Message("user", "hi"),
        Message("assistant", "I cannot do that.", reply_kind="discarded"),
        Message("assistant", "Hello.", reply_kind="forced"),
        TurnFinished("answered"),
    )
    for format_name in EXPORTS:
        text = exported(format_name, talk)
        assert "Hello." in text and "I cannot do that." not in text


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
        assert page.names <= {
            "h1",
            "h2",
            "h3",
            "p",
            "ul",
            "li",
            "blockquote",
            "pre",
            "code",
            "em",
            "strong",
            "a",
            "br",
            "table",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
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
        kinds = {part.type for token in tokens for part in [token, *(token.children or ())]}
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


@pytest.mark.parametrize("format_name", EXPORTS)
def test_an_export_that_is_printed_does_not_control_the_terminal(format_name: str) -> None:
    text = exported(format_name, hostile_talk(("\x1b[2J\x1b]0;title\x07\x9b31m",)))
    assert "title" in text and not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)


@pytest.mark.parametrize("format_name", EXPORTS)
def test_a_talk_of_any_records_is_exported(format_name: str) -> None:
    odd: tuple[Record, ...] = (
        Message("assistant", "no question"), Usage(), Message("tool", "t", TIDE), HistoryEdited(0, 9),
        TurnFinished("failed", "x"),
        ContextTrimmed(9, 1), Message("user", ""), Message("assistant", "x" * 150_000), Message("system", "s"),
        Message("user", "a" * 300),
        Message("assistant", "<think>never closed"),
        HistoryEdited(5, 2, (Message("user", "q"),)),
    )  # fmt: skip
    for size in range(len(odd) + 1):
        assert exported(format_name, odd[:size])


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
    assert [(medium["media_type"], medium["width"], "path" in medium) for medium in turn["media"]] == [
        ("image/png", 64, False)
    ]
    assert [medium["name"] for medium in turn["parts"][0]["result"]["media"]] == ["chart", "bell", "gone"]
