"""Neutralize untrusted text for a model: fence it so that it cannot end its frame, and break tool calls inside it.

Results of tools, resources, files and prompts pass through here on the way to a model; what the user sees and what is
stored is unchanged. An ordinary result follows its heading as it is. One that could be mistaken for something else is
put between fences longer than any run of backticks in it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from ..calls.formats import FORMATS
from ..calls.scanner import Scanner
from ..core.events import Text
from ..core.i18n import Words
from ..core.sanitize import normalize_for_search, sanitize_line, strip_invisible
from .pieces import neutralize_control_tokens

MAX_UNFENCED_LINES = 24
"""Longer results are fenced, because their end is far from their heading."""

_MIN_FENCE_LENGTH = 3
_HEADING_KEYS = (
    "prompt.result",
    "prompt.failed",
    "prompt.answer",
    "prompt.attached",
    "prompt.fenced",
    "prompt.tools",
    "prompt.instructions",
    "prompt.catalogue",
    "prompt.may_help",
    "prompt.read_on",
)

# A line that imitates a role of the conversation, or opens or closes a code block.
_SPEAKER = re.compile(
    r"[\W_]*(?:system|user|assistant|human|developer|システム|ユーザー|アシスタント|系统|用户|助手)[\W_]{0,4}:"
    r"|</?(?:system|user|assistant|instructions?)>|#+\W*(?:instruction|response)s?\W*$|`{3}|~{3}",
    re.IGNORECASE,
)
_BACKTICKS = re.compile("`+")
_CODE_TAG = "<code>"


def neutralize(text: str) -> str:
    """Remove invisible characters and insert a space after the first character of each literal that starts a tool call.

    Text that a model quotes then does not become a call. Literals that are words or fences stay, since ordinary text
    contains them; `could_mislead` detects those.
    """
    text = strip_invisible(text)
    folded, positions = normalize_for_search(text)
    # a lookahead, because literals may overlap
    cuts = {positions[match.start()] + 1 for match in _pattern(breakable_literals(call_openers())).finditer(folded)}
    edges = [0, *sorted(cuts), len(text)]
    return " ".join(text[start:end] for start, end in pairwise(edges))


def neutralize_line(text: str) -> str:
    """Apply `neutralize` and collapse to one line; for names."""
    return neutralize(sanitize_line(text)) if text else text


def fence_untrusted(heading: str, text: str, words: Words) -> str:
    """Put a result below its heading, fenced if it could be mistaken for something else."""
    neutralized = neutralize(text)
    return f"{heading}\n{fence_text(neutralized, words) if could_mislead(text, words) else neutralized}"


def fence_text(text: str, words: Words) -> str:
    """Fence a text so that it cannot end the fence, preceded by a description and its number of lines."""
    backticks = choose_fence(text)
    return f"{words('prompt.fenced', lines=text.count(chr(10)) + 1)}\n{backticks}\n{text}\n{backticks}"


def choose_fence(text: str) -> str:
    """Return a run of backticks longer than any in the text after normalization (CommonMark 0.31, section 4.5)."""
    runs = _BACKTICKS.findall(normalize_for_search(text)[0])
    return "`" * max(_MIN_FENCE_LENGTH, 1 + max(map(len, runs), default=0))


def could_mislead(text: str, words: Words) -> bool:
    """Return whether a text is long, contains call markers or control tokens, or has a line that imitates our own."""
    folded = normalize_for_search(text)[0]
    if (
        folded.count("\n") >= MAX_UNFENCED_LINES
        or neutralize_control_tokens(text) != text
        or _pattern(call_openers()).search(folded)
        or ((end := words("prompt.result_end")) and end in folded)
    ):
        return True
    if _is_call(text):
        return True
    headings = _headings(tuple(filter(None, (words.sentences[key] for key in _HEADING_KEYS))))
    return any(_SPEAKER.match(line) or headings.fullmatch(line) for line in map(str.strip, folded.splitlines()))


def _is_call(text: str) -> bool:
    """Return whether a text is a tool call for some model: several families write calls without markers."""
    scanner = Scanner(FORMATS.values(), is_known=lambda _name: True)
    return any(not isinstance(event, Text) for event in (*scanner.feed(text), *scanner.close()))


def call_openers() -> tuple[str, ...]:
    """Return all literals that start a tool call in any format."""
    return _list_openers(tuple(FORMATS))


@lru_cache
def _list_openers(formats: tuple[str, ...]) -> tuple[str, ...]:
    """Return the openers of formats, given by name: plugins add formats later."""
    return tuple(dict.fromkeys(opener for name in formats for opener in FORMATS[name].openers))


@lru_cache
def breakable_literals(literals: tuple[str, ...]) -> tuple[str, ...]:
    """Return the literals that do not occur in ordinary text.

    They begin with a symbol, contain letters, and are not code, HTML or Python.
    """
    return tuple(
        literal
        for literal in literals
        if not literal[0].isalnum() and literal[0] not in "`{" and re.search(r"\w{3}", literal) and literal != _CODE_TAG
    )


@lru_cache
def _pattern(literals: tuple[str, ...]) -> re.Pattern[str]:
    folded = sorted({normalize_for_search(literal)[0] for literal in literals}, key=len, reverse=True)
    # a literal that ends in a letter must end a word: "<function" is not in "#include <functional>"
    alternatives = (re.escape(literal) + (r"(?!\w)" if literal[-1].isalnum() else "") for literal in folded)
    return re.compile(f"(?=({'|'.join(alternatives)}))", re.IGNORECASE)


@lru_cache
def _headings(sentences: tuple[str, ...]) -> re.Pattern[str]:
    """Match lines that look like our own headings with any values; `{tool} failed:` must match completely."""
    folded = (
        re.escape(re.sub(r"\{\w+\}", "\0", normalize_for_search(sentence)[0])).replace("\0", ".+")
        for sentence in sentences
    )
    return re.compile(
        "|".join(sentence if sentence.startswith(".+") else f"{sentence}.*" for sentence in folded), re.IGNORECASE
    )
