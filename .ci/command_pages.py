"""The reference of slash commands, made from the help of the chat in its languages."""

from __future__ import annotations

from collections.abc import Iterator

from rkllm_chat.core.i18n import Words, load
from rkllm_chat.tui.slash_commands.basics import iter_groups, list_actions
from rkllm_chat.tui.slash_commands.registry import Command

TITLES = {
    "en": ("Slash commands", "Made from the program's help: `/help` lists these commands, `/help NAME` explains one."),
    "ja": (
        "スラッシュコマンド",
        "プログラムのヘルプから作られています。`/help` は一覧を、`/help NAME` は 1 つの説明を表示します。",
    ),
    "zh": ("斜杠命令", "由程序的帮助生成：`/help` 列出这些命令，`/help NAME` 解释其中一个。"),
}


def make_page(language: str) -> str:
    """Return the reference as Markdown."""
    words = load(language)
    title, about = TITLES[language]
    lines = [f"# {title}", "", about]
    for group, entries in iter_groups():
        lines += ["", f"## {words(f'groups.{group}')}"]
        for entry in entries:
            lines += ["", *_describe(entry, words)]
    return "\n".join(lines) + "\n"


def _describe(entry: Command, words: Words) -> Iterator[str]:
    """Yield the lines of a command: purpose, other names, actions, an example."""
    name, *others = entry.names
    yield f"### `{f'{name} {entry.usage}'.rstrip()}`"
    yield ""
    yield _escape(entry.describe(words))
    if others:
        yield words("help.aliases", names=" ".join(f"`{other}`" for other in others))
    actions = list_actions(name, words)
    if actions:
        yield ""
    for action, text in actions.items():
        yield f"- `{name} {action}`: {_escape(text)}"
    if entry.example:
        yield ""
        yield words("help.example", text=f"`{entry.example}`")


def _escape(text: str) -> str:
    """Return text whose angle brackets Markdown shows."""
    return text.replace("<", "&lt;")
