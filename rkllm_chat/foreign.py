"""What others wrote, as a model is given it: data in a frame that it cannot close, in which no call can be copied.

Results of tools, texts of resources, files and prompts go through here on their way to a model; what a person is shown
and what is kept stays as it was. An ordinary result stands below its heading as it is. One that could be taken for
something else stands between fences longer than any run of backticks in it, so it ends where they do.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from .clean import clean_line, fold, unmask
from .events import Text
from .formats import FORMATS
from .language import Words
from .scanner import Scanner
from .templates import harmless

MOST_LINES = 24
"""A result of more lines is fenced: its end is far from its heading."""

LEAST_FENCE = 3
HEADINGS = (
    "prompt.result",
    "prompt.failed",
    "prompt.answer",
    "prompt.attached",
    "prompt.fenced",
    "prompt.tools",
    "prompt.catalogue",
    "prompt.may_help",
    "prompt.read_on",
)

# A line that speaks as somebody in a talk, or opens or closes a block of code.
_SPEAKER = re.compile(
    r"[\W_]*(?:system|user|assistant|human|developer|システム|ユーザー|アシスタント|系统|用户|助手)[\W_]{0,4}:"
    r"|</?(?:system|user|assistant|instructions?)>|#+\W*(?:instruction|response)s?\W*$|`{3}|~{3}",
    re.IGNORECASE,
)
_RUN = re.compile("`+")
HTML = "<code>"


def disarm(text: str) -> str:
    """The text without what nobody sees, and with a blank behind the first sign of each literal that begins a call.

    So whoever says it again makes no call of it. A literal that is a word or a fence is left: text is full of them, and
    `could_mislead` sees them.
    """
    text = unmask(text)
    folded, places = fold(text)
    # a look ahead, because one may begin inside another
    cuts = {places[match.start()] + 1 for match in _pattern(breakable(openers())).finditer(folded)}
    edges = [0, *sorted(cuts), len(text)]
    return " ".join(text[start:end] for start, end in pairwise(edges))


def disarm_line(text: str) -> str:
    """As `disarm`, on one line: for names."""
    return disarm(clean_line(text)) if text else text


def frame(heading: str, text: str, words: Words) -> str:
    """A result below its heading: as it is, or between fences where it could be taken for something else."""
    shown = disarm(text)
    return f"{heading}\n{fence(shown, words) if could_mislead(text, words) else shown}"


def fence(text: str, words: Words) -> str:
    """The text between fences that it cannot close, and before them what it is and how many lines it has."""
    mark = fence_of(text)
    return f"{words('prompt.fenced', lines=text.count(chr(10)) + 1)}\n{mark}\n{text}\n{mark}"


def fence_of(text: str) -> str:
    """A run of backticks longer than any in the text, however those are written (CommonMark 0.31, section 4.5)."""
    runs = _RUN.findall(fold(text)[0])
    return "`" * max(LEAST_FENCE, 1 + max(map(len, runs), default=0))


def could_mislead(text: str, words: Words) -> bool:
    """Whether a text is long, has a mark of a call or a control token, or a line that looks like one of ours."""
    folded = fold(text)[0]
    if folded.count("\n") >= MOST_LINES or harmless(text) != text or _pattern(openers()).search(folded):
        return True
    if is_call(text):
        return True
    ours = _headings(tuple(words.sentences[key] for key in HEADINGS))
    return any(_SPEAKER.match(line) or ours.fullmatch(line) for line in map(str.strip, folded.splitlines()))


def is_call(text: str) -> bool:
    """Whether a text is a call for some model as it stands: several families write them without any mark."""
    scanner = Scanner(FORMATS.values(), is_known=lambda _name: True)
    return any(not isinstance(event, Text) for event in (*scanner.feed(text), *scanner.close()))


@lru_cache
def openers() -> tuple[str, ...]:
    """All literals that begin a call in a model's text."""
    return tuple(dict.fromkeys(opener for form in FORMATS.values() for opener in form.openers))


@lru_cache
def breakable(literals: tuple[str, ...]) -> tuple[str, ...]:
    """Those that ordinary text does not hold: they begin with a sign, have letters, and are no code, HTML or Python."""
    return tuple(
        one
        for one in literals
        if not one[0].isalnum() and one[0] not in "`{" and re.search(r"\w{3}", one) and one != HTML
    )


@lru_cache
def _pattern(literals: tuple[str, ...]) -> re.Pattern[str]:
    folded = sorted({fold(one)[0] for one in literals}, key=len, reverse=True)
    # what ends in a letter is the whole of a name: "<function" is none in "#include <functional>"
    written = (re.escape(one) + (r"(?!\w)" if one[-1].isalnum() else "") for one in folded)
    return re.compile(f"(?=({'|'.join(written)}))", re.IGNORECASE)


@lru_cache
def _headings(sentences: tuple[str, ...]) -> re.Pattern[str]:
    """Lines that look like the chat's own, whatever stands in their places; `{tool} failed:` is one as a whole."""
    folded = (re.escape(re.sub(r"\{\w+\}", "\0", fold(one)[0])).replace("\0", ".+") for one in sentences)
    return re.compile("|".join(one if one.startswith(".+") else f"{one}.*" for one in folded), re.IGNORECASE)
