"""Our own options, which come before the tool's name; most are understood behind it too, where the tool has no such."""

from __future__ import annotations

from types import SimpleNamespace

from ..errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Options = Any
    """One attribute for each option: its text, or None; for a switch whether it is given."""

FORMS = ("text", "json", "yaml", "table")

# name: (what its value is, "" for a switch; whether it may stand behind the tool; what it does)
OPTIONS: dict[str, tuple[str, bool, str]] = {
    "help": ("", True, "this text; with a tool its description, flags, an example and its schema"),
    "output": ("FORM", True, f"{', '.join(FORMS)} (default: text)"),
    "output-dir": ("FOLDER", True, "where images, sound and other data go (default: a new folder for temporary files)"),
    "json": ("OBJECT", True, "the tool's arguments as JSON; flags win over it"),
    "json-file": ("FILE", True, "the same from a file"),
    "json-stdin": ("", True, "the same from standard input"),
    "no-check": ("", True, "send the arguments even if they do not fit the tool's schema"),
    "verbose": ("", True, "the server's standard error on standard error, at the end"),
    "timeout": ("SECONDS", False, "how long the start may take, and how long the answer"),
    "keep-alive": ("SECONDS", False, "let the server stay so long for the next call that says this too; 0 ends it"),
    "config": ("FILE", False, "read this configuration alone"),
    "version": ("", False, "the version"),
}
WHOLE = ("json", "json-file", "json-stdin")
LEAST_S = {"timeout": 0.001, "keep-alive": 0}
OWN = {name: bool(value) if behind else None for name, (value, behind, _) in OPTIONS.items()}


def no_options() -> Options:
    return SimpleNamespace(**{attribute(name): None if value else False for name, (value, *_) in OPTIONS.items()})


def parse(words: Sequence[str], options: Options) -> list[str]:
    """Takes our options from the front of the words; gives the rest: the tool and its flags. Raises UsageError."""
    waiting = list(words)[::-1]
    while waiting and waiting[-1].startswith("-"):
        word = waiting.pop()
        name, has_text, text = ("help", "", "") if word == "-h" else word.removeprefix("--").partition("=")
        if name not in OPTIONS or not word.startswith("-"):
            raise UsageError(f"There is no option {word}.", hint(name), got=word)
        if OPTIONS[name][0] and not has_text:
            if not waiting:
                raise UsageError(f"--{name} needs a value.", expected=OPTIONS[name][0])
            text = waiting.pop()
        elif has_text and not OPTIONS[name][0]:
            raise UsageError(f"--{name} takes no value.", got=word)
        take({name: text}, options)
    return waiting[::-1]


def hint(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, OPTIONS, n=1)
    return f"Did you mean --{near[0]}?" if near else "The flags of a tool come behind its name."


def take(given: dict[str, str], options: Options) -> None:
    """Takes options by name. Raises UsageError for one that is given twice, and for a value it may not have."""
    for name, text in given.items():
        takes_value = bool(OPTIONS[name][0])
        if takes_value and getattr(options, attribute(name)) is not None:
            raise UsageError(f"--{name} is given twice.", got=text)
        if name == "output" and text not in FORMS:
            raise UsageError(f'--output "{text}" is unknown.', f"Known are {', '.join(FORMS)}.", available=list(FORMS))
        value = read_seconds(name, text) if name in LEAST_S else text
        setattr(options, attribute(name), value if takes_value else True)
    whole = [name for name in WHOLE if getattr(options, attribute(name)) not in (None, False)]
    if len(whole) > 1:
        raise UsageError(f"--{whole[0]} and --{whole[1]} cannot be combined.", "Keep one of them.")


def read_seconds(name: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    least = LEAST_S[name]
    if not least <= seconds <= 86_400:
        raise UsageError(f'--{name} "{text}" is no number of seconds.', f"From {least:g} to 86400.", got=text)
    return seconds


def attribute(name: str) -> str:
    return name.replace("-", "_")
