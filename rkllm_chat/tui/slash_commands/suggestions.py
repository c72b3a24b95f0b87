"""What to write instead of a command that there is none of: by its meaning, or by its spelling."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from difflib import SequenceMatcher, get_close_matches

from ...core.i18n import Words
from ..question_search import find_answer

MIN_SIMILARITY = 0.7
_MIN_TYPO_SIMILARITY, _MIN_LONG_TYPO_SIMILARITY = 0.8, 0.9
_MAX_SUGGESTED = 3
_WRITTEN = re.compile(r"^ {4}(/[a-z]+)(?: ([a-z_]+))?", re.MULTILINE)
"""A command in a block of a page, and the word behind it."""
_INLINE = re.compile(r"`(/[a-z]+)(?: ([a-z_]+))?[^`]*`")
_MEANT: Mapping[str, Sequence[str]] = {
    name: written.split(", ")
    for names, written in {
        "about info show state stat status": "/context, /mcp list, /model",
        "add": "/attach, /mcp add",
        "agent agents server": "/mcp",
        "allow": "/permissions allow PATTERN",
        "ask approval approvals approve auto mode plan yolo": "/permissions",
        "again redo regen regenerate repeat resend": "/retry",
        "back rewind": "/undo",
        "bash cmd exec sh shell terminal": "!COMMAND",
        "command commands h man": "/help",
        "compress shrink summarise summarize summary": "/compact",
        "chat chats conversation conversations load open": "/sessions, /model",
        "delete forget remove rm": "/undo, /sessions",
        "deny": "/permissions deny PATTERN",
        "file files read upload": "/attach",
        "find search": "/sessions WORDS",
        "init": "!rkllm-chat init",
        "emacs vi vim": "/set key_bindings",
        "key": "/help keys",
        "lang locale": "/set language",
        "list ls": "/tools list, /sessions, /model",
        "logout": "/mcp auth NAME forget",
        "memory remember": "/system TEXT",
        "name rename title": "/sessions",
        "reload": "/mcp reload",
        "restart": "/mcp restart NAME",
        "run": "/call, !COMMAND",
        "temp": "/set temperature",
        "ver version": "!rkllm-chat --version",
    }.items()
    for name in names.split()
}
"""Names that other programs have, or that people try, whose meaning the search of the questions does not find."""


def suggest_commands(name: str, known: Collection[str], words: Words) -> Sequence[str]:
    """Return what to write instead of an unknown command; empty if nothing comes near.

    A typing error of a command is corrected; else what the name means counts, then what it looks like.

    Args:
        name: The name, with its slash.
        known: The names of all commands, with their slashes.
        words: The user's language, whose questions are searched.
    """
    word = name[1:].casefold()
    return (
        _MEANT.get(word)
        or correct_typo(name, known)
        or _find_by_meaning(re.sub("[-_]+", " ", word), known, words)
        or get_close_matches(f"/{word}", known, 1, MIN_SIMILARITY)
    )


def correct_typo(name: str, known: Collection[str]) -> Sequence[str]:
    """Return the command of which a name is a typing error; empty if it only looks like one."""
    close = get_close_matches(name.casefold(), known, 1, _MIN_TYPO_SIMILARITY)
    return [near for near in close if _is_typo(name.casefold(), near)]


def find_title(name: str, words: Words) -> str:
    """Return the title of the question that the name of an unknown command means; "" if none fits."""
    return find_answer(name[1:], words).text.partition("\n")[0] if name[1:] else ""


def _is_typo(word: str, known: str) -> bool:
    is_about_as_long = abs(len(word) - len(known)) <= 1
    return is_about_as_long or SequenceMatcher(None, word, known).ratio() >= _MIN_LONG_TYPO_SIMILARITY


def _find_by_meaning(word: str, known: Collection[str], words: Words) -> list[str]:
    """Return the commands that the page of help for a word shows, with their actions and without other arguments."""
    text = find_answer(word, words).text.partition("\n")[2] if word else ""
    shown = [
        f"{name} {action}" if action and _is_part(name, action, words) else name
        for name, action in _WRITTEN.findall(text) or _INLINE.findall(text)
        if name in known
    ]
    return [*dict.fromkeys(shown)][:_MAX_SUGGESTED]


def _is_part(name: str, action: str, words: Words) -> bool:
    """Return whether the word behind a command says what it does."""
    actions = [key for key in words.sentences if key.startswith(f"actions.{name} {action}")]
    return bool(actions) or name in ("/set", "/help")
