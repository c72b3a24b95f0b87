# Long word lists are easier to read and to add to as one text that is split.

"""Requests that no tool of a list fits, the near ones above all: another thing, or a tool that the list lacks.

Whether a request could mean a listed tool is judged by its words, verbs apart: nothing is asked that shares a thing
with the list. It knows no prompt.
"""

import re
from collections.abc import Sequence
from random import Random

from board_list import board_tools
from board_questions import Question, board_question
from invented import invent_server
from lent import ALIASES
from rkllm_chat.core.messages import Tool
from saying import draw_language
from talk import hopeless
from verbs import VERBS
from words import load_words
from written import Item, written_server

WORD = re.compile(r"[a-z]{3,}")
# Small talk's hopeless requests are about these; a list that has them may fit.
COMMON_WISHES = set(load_words("talk")["common_wishes"])


def words_in(text: str) -> set[str]:
    """Words without plural endings, names in capitals or snakes taken apart."""
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower()
    return {word.removesuffix("s") for word in WORD.findall(parted)}


VERB_WORDS = words_in(" ".join(f"{verb.names} {verb.about} {verb.english}" for verb in VERBS.values())) | words_in(
    "the for and with from one all what which new old a given file text name into its your you this that number"
)


def things_of(tools: Sequence[Tool]) -> set[str]:
    told = " ".join(f"{tool.name} {tool.description}" for tool in tools)
    return words_in(told) - VERB_WORDS


def known_as(tool: Tool) -> set[str]:
    """The things of a tool of the board, in its own words and in those of other servers."""
    alias = ALIASES[tool.name]
    abouts = f"{alias.names}|{alias.abouts}".split("|")
    return things_of([tool, *(Tool("", about, {}, "") for about in abouts)])


def is_lacking(tool: Tool, tools: Sequence[Tool]) -> bool:
    """Whether none of these tools is this one of the board, by its name in any style or by what it is about."""
    names = [words_in(one.name) for one in tools]
    return words_in(tool.name) not in names and not known_as(tool) & things_of(tools)


def misfit(tools: Sequence[Tool], missing: Sequence[Item], random: Random, held_out: bool) -> Question:
    """A request that no tool in `tools` fits; `missing` are tools of the same server that are not listed."""
    if missing and random.random() < 0.35:
        return random.choice(missing).ask(random, draw_language(random, held_out), held_out)
    things = things_of(tools)
    while True:
        question = draw_foreign(tools, random, held_out)
        if question and not words_in(question.said) & things:
            return question


def draw_foreign(tools: Sequence[Tool], random: Random, held_out: bool) -> Question | None:
    """A request that may or may not fit."""
    things = things_of(tools)
    lacking = [tool for tool in board_tools() if is_lacking(tool, tools)]
    chance = random.random()
    if lacking and chance < 0.2:
        return board_question(random.choice(lacking).name, random, held_out)
    wishes = words_in(" ".join(f"{tool.name} {tool.description}" for tool in tools)) & COMMON_WISHES
    if chance < 0.6 and not wishes:
        said, language = hopeless(random, held_out)
        return Question(said, None, {}, language)
    others = (invent_server if chance < 0.85 else written_server)(random, 1, held_out)
    if not others or things_of([others[0].tool]) & things:
        return None
    return others[0].ask(random, draw_language(random, held_out), held_out)
