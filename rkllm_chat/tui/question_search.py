"""Search the page of questions, which ships in each language and is docs/questions.md."""

from __future__ import annotations

import re
from pathlib import Path

from ..core.i18n import Words, list_languages
from ..core.messages import Tool
from ..prompt.tool_ranking import ToolIndex, rank_tools
from .markdown.cells import wrap_text

_FOLDER = Path(__file__).with_name("questions")
_LINK = re.compile(r"\[([^\]]+)\]\((\.\./)?([^)#]+)[^)]*\)")
_WIDE_LINE_END = re.compile(r"(?<![\x00-\x7f])\n")
_MAX_OTHERS, _WIDTH = 3, 78


def read_page(language: str) -> str:
    """Return the page in a language, as Markdown; its links are those of docs/."""
    return (_FOLDER / f"{language}.md").read_text(encoding="utf-8")


def find_answer(text: str, words: Words) -> str:
    """Return the answer to the question that fits best, then the titles of others that fit; "" if none does.

    Args:
        text: Some words, or a question.
        words: Sentences of the user's language, whose page is searched first.
    """
    for language in dict.fromkeys((words.code, *list_languages())):
        _, *sections = read_page(language).split("\n## ")
        tools = [Tool(title, answer) for title, _, answer in (section.partition("\n") for section in sections)]
        if found := rank_tools(ToolIndex(tools), text, {}):
            others = [f"- {tool.name}" for tool in found[1 : _MAX_OTHERS + 1]]
            more = ["", words("help.others"), *others] if others else []
            return "\n".join((found[0].name, "", _format_answer(found[0].description), *more))
    return ""


def _format_answer(markdown: str) -> str:
    """Return an answer as plain text of _WIDTH cells: code is indented, the page of a link stands in parentheses."""
    blocks: list[str] = []
    text = _LINK.sub(lambda link: f"{link[1]} ({'' if link[2] else 'docs/'}{link[3]})", markdown)
    for block in text.strip().split("\n\n"):
        if block.startswith("```"):
            blocks.append("\n".join(f"    {line}" for line in block.splitlines()[1:-1]))
        elif block.startswith("|"):
            blocks.append(block)
        else:
            blocks.append("\n".join(wrap_text(_WIDE_LINE_END.sub("", block).replace("\n", " "), _WIDTH)))
    return "\n\n".join(blocks)
