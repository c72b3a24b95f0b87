"""Exchanges about drawn tools: one call, the same once more, two calls, chains, corrections, and long results.

It knows no prompt and no list; what is called is what was asked for.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from board_questions import Question
from board_results import text_of_lines
from exchanges import WORDS, Exchange, Step, Told, answer_with, correction
from kinds import KINDS, draw_value
from parameters import Parameter
from rkllm_chat.core.messages import Tool
from rkllm_chat.prompt.result_pages import ResultPage, show_ends, show_lines, show_matches, split_result
from saying import QUOTE_PAIRS, Given, say_value
from telling import RESULT_SLOTS
from vocabulary import name, number, word
from words import load_words
from written import Item

PHRASES = load_words("turns")
JOINTS = PHRASES["joints"]
CHAINS = PHRASES["chains"]
REFERENCES = PHRASES["references"]
AGAIN = PHRASES["again"]
ONWARD = PHRASES["onward"]
SEEK = PHRASES["seek"]
NO_THINGS = frozenset(
    [
        "from",
        "to",
        "by",
        "in",
        "at",
        "when",
        "where",
        "who",
        "what",
        "which",
        "since",
        "until",
        "before",
        "after",
        "old",
        "new",
    ]
)
"""First words of parameters' names behind which "that" refers to nothing."""
CHAINED = ("code", "mail", "word", "title", "person", "file", "place", "url")
MISLEADING = PHRASES["misleading"]
MOST_SHOWN = 5


def ask_item(item: Item, random: Random, language: str, held_out: bool) -> tuple[Question, Exchange]:
    """A question for a tool, and what comes of it."""
    question = item.ask(random, language, held_out)
    return question, called(item, question, random)


def called(item: Item, question: Question, random: Random, kind: str = "") -> Exchange:
    told = draw_result(item, question.arguments, random)
    step = Step(((item.tool.name, question.arguments),), (told,))
    answer = answer_with([told.text], question.language)
    return Exchange(question.said, (step,), answer, question.language, kind or question.style)


def draw_result(item: Item, arguments: Mapping[str, Any], random: Random) -> Told:
    """What a tool says: in its own words, or any text of up to five lines; at times that it failed."""
    chance = random.random()
    if chance < 0.06:
        return Told(random.choice(FAILURES).format(w=word(random), n=number(random), t=item.tool.name), worked=False)
    if chance < 0.5:
        return Told(item.result(arguments, random))
    if chance < 0.85:
        values = [str(value) for value in arguments.values() if isinstance(value, str | int | float)]
        values.append(random.choice([item.tool.name, name(random)]))
        return Told(fill_any(random.choice(ANY_RESULT), random.choice(values), random))
    text = text_of_lines(random.choice([1, 2, 3, 4, 5]), random)
    if chance < 0.87:
        text = f"{text}\n{random.choice(MISLEADING).format(word(random))}"
    return Told(text)


FAILURES = PHRASES["failures"]
ANY_RESULT = PHRASES["any_result"]


def fill_any(template: str, value: str, random: Random) -> str:
    filled = template.replace("{{", "\0").replace("}}", "\1").replace("{value}", value)
    filled = filled.replace("{stem}", re.split(r"[_ /.-]", value)[0] or value)
    while (slot := next((slot for slot in RESULT_SLOTS if f"{{{slot}}}" in filled), None)) is not None:
        filled = filled.replace(f"{{{slot}}}", RESULT_SLOTS[slot](random), 1)
    return filled.replace("\0", "{").replace("\1", "}")


def ask_again(item: Item, before: Question, random: Random, held_out: bool) -> tuple[Question, Exchange] | None:
    """The same tool with one value changed: "and in Oslo?"; None where it cannot be said shortly."""
    known = [one for one in item.parameters if one.name in before.arguments and is_plain(one)]
    if not known or before.language not in AGAIN:
        return None
    one = random.choice(known)
    value = draw_value(one.kind, one.choices, random, before.language, held_out)
    forms = AGAIN[before.language]
    form = random.choice([form for form in forms if len(known) == 1 or "{p}" in form])
    said = form.format(v=say_value(Given(one.name, one.kind, value), random, before.language), p=one.name)
    question = replace(before, said=said, arguments={**before.arguments, one.name: value})
    return question, called(item, question, random, "again")


def is_plain(one: Parameter) -> bool:
    return one.kind not in ("flag", "records") and KINDS[one.kind].schema.get("type") != "array"


def ask_two(
    items: Sequence[Item], random: Random, language: str, held_out: bool, named: bool | None = None
) -> Exchange | None:
    """Two calls in one reply: of two tools, or of one with two values; None where both would be the same."""
    first = random.choice(items)
    others = [one for one in items if one is not first]
    second = random.choice(others) if others and random.random() < 0.7 else first
    asked = [one.ask(random, language, held_out, named) for one in (first, second)]
    if second is first and asked[0].arguments == asked[1].arguments:
        return None
    said = join_questions(asked[0].said, asked[1].said, asked[1].arguments, JOINTS[asked[1].language], random)
    if second is first and (joined := join_values(first, asked)):
        said = joined
    told = [draw_result(one, question.arguments, random) for one, question in zip((first, second), asked, strict=True)]
    calls = tuple((one.tool.name, question.arguments) for one, question in zip((first, second), asked, strict=True))
    answer = answer_with([one.text for one in told], asked[0].language)
    return Exchange(said, (Step(calls, tuple(told)),), answer, asked[0].language, "two")


def join_questions(first: str, second: str, arguments: Mapping[str, Any], joints: Sequence[str], random: Random) -> str:
    """Both in one; the second begins small, but where it begins with one of its values."""
    joint = random.choice(joints)
    begins = second.startswith(tuple(value for value in arguments.values() if isinstance(value, str)))
    if joint.isascii() and "." not in joint and random.random() < 0.8 and not begins:
        second = second[0].lower() + second[1:]
    return first.rstrip(".?!。？！ ") + joint + second


def join_values(item: Item, asked: Sequence[Question]) -> str | None:
    """ "the light in the hall and in the attic": one question with both values, where only one differs and the tool
    has no other place for it."""
    first, second = (question.arguments for question in asked)
    if len(first) != 1 or first.keys() != second.keys() or first == second:
        return None
    kinds = [one.kind for one in item.parameters]
    if kinds.count(next(one.kind for one in item.parameters if one.name in first)) > 1:
        return None
    (one,), (other,) = first.values(), second.values()
    said = asked[0].said
    before, found, behind = said.partition(str(one))
    if not isinstance(one, str | int) or not found or found in behind:
        return None
    marks = before[-1:], behind[:1]
    if marks in QUOTE_PAIRS:
        one, other = f"{one}{marks[1]}", f"{marks[0]}{other}"
    elif found.count(" ") > 1:
        return None  # where does the first one end?
    joint = {"en": " and ", "ja": "と", "zh": "和"}[asked[0].language]
    return f"{before}{one}{joint}{other}{behind}"


def ask_in_chain(
    items: Sequence[Item], random: Random, language: str, held_out: bool, named: bool | None = None
) -> Exchange | None:
    """A second call from the first's result; None where no tool of the list takes one."""
    takers = [(item, one) for item in items for one in item.parameters if one.kind in CHAINED and not one.is_optional]
    if not takers:
        return None
    taker, parameter = random.choice(takers)
    giver = random.choice(items)
    asked, wanted = (one.ask(random, language, held_out, named) for one in (giver, taker))
    reference = refer(wanted, parameter, random)
    if reference is None:
        return None
    value = draw_value(parameter.kind, (), random, language, held_out)
    told = Told(random.choice(BARE_RESULTS).format(v=value, w=word(random), p=parameter.name.replace("_", " ")))
    then = {**wanted.arguments, parameter.name: value}
    last = draw_result(taker, then, random)
    steps = (
        Step(((giver.tool.name, asked.arguments),), (told,)),
        Step(((taker.tool.name, then),), (last,)),
    )
    said = join_questions(asked.said, reference, wanted.arguments, CHAINS[wanted.language], random)
    return Exchange(said, steps, answer_with([last.text], asked.language), asked.language, "chain")


BARE_RESULTS = ["{v}", "{v}", "{p}: {v}", "The {p} is {v}.", "{w}: {v}", "It is {v}.", "{p}: {v}\n{w}: {w}"]


def refer(wanted: Question, parameter: Parameter, random: Random) -> str | None:
    """The question with "it" in the place of one value; None where that value is not said once."""
    value = str(wanted.arguments.get(parameter.name))
    pattern = re.compile(rf"[\"'`「『“]?{re.escape(value)}[\"'`」』”]?")
    if len(pattern.findall(wanted.said)) != 1:
        return None
    reference = random.choice(REFERENCES[wanted.language])
    spoken = parameter.name.replace("_", " ")
    if wanted.language == "en" and random.random() < 0.4 and spoken.split()[0] not in NO_THINGS:
        reference = f"that {spoken}"
    return pattern.sub(lambda _: reference, wanted.said)


def ask_corrected(item: Item, tools: Sequence[Tool], random: Random, language: str, held_out: bool) -> Exchange | None:
    """A call that was wrong, what the chat says to it, and the right one; None where nothing can be wrong."""
    question = item.ask(random, language, held_out)
    called_name, arguments = spoil(item, question.arguments, random)
    try:
        correction(called_name, arguments, tools, "json")
    except LookupError:
        return None
    told = draw_result(item, question.arguments, random)
    wrong = Step(((called_name, arguments),), is_wrong=True)
    right = Step(((item.tool.name, question.arguments),), (told,))
    answer = answer_with([told.text], question.language)
    return Exchange(question.said, (wrong, right), answer, question.language, "corrected")


def spoil(item: Item, arguments: Mapping[str, Any], random: Random) -> tuple[str, dict[str, Any]]:
    """The call as it may go wrong: another name, a parameter lacking, misnamed or of another kind."""
    wrong = dict(arguments)
    way = random.random()
    if not wrong or way < 0.25:
        parts = item.tool.name.split("_")
        return random.choice(["_".join([*parts[:-1], word(random)]), item.tool.name[:-1], f"{item.tool.name}s"]), wrong
    key = random.choice(list(wrong))
    value = wrong.pop(key)
    if way < 0.5:
        wrong[random.choice([word(random), f"{key}s", key[:-1] or "x"])] = value
    elif way < 0.75 and isinstance(value, int | float):
        wrong[key] = word(random)
    return item.tool.name, wrong


def ask_long(item: Item, random: Random, language: str, held_out: bool) -> list[Exchange]:
    """A result that was too long, and questions that page in it or search it."""
    question = item.ask(random, language, held_out)
    text = text_of_lines(random.randint(12, 60), random)
    long, room = split_result("r1", text), random.randint(4, 9)
    page = show_ends(long, lambda shown: shown.count("\n") <= room, WORDS)
    if not page.more:
        return [called(item, question, random)]
    spoken = question.language
    answer = answer_with(
        ["".join(long.lines[: max(1, int(page.more["range"].split("-")[0]) - 1)][:MOST_SHOWN]).rstrip("\n")], spoken
    )
    step = Step(((item.tool.name, question.arguments),), (Told(text, page=page),))
    turns = [Exchange(question.said, (step,), answer, spoken, "long")]
    for _ in range(random.randint(0, 3)):
        if page.more is None or "range" not in page.more:
            break
        asked: dict[str, Any] = dict(page.more)
        said = random.choice(ONWARD[spoken].split("|"))
        first, last = map(int, asked["range"].split("-"))
        if random.random() < 0.3:
            needle = random.choice(re.findall(r"\w{3,}", text) or [word(random)])
            asked = {"handle": "r1", "search": needle}
            said = random.choice(SEEK[spoken].split("|")).format(v=needle)
            page = show_matches(long, needle, 1, len(long.lines), lambda shown: shown.count("\n") <= MOST_SHOWN, WORDS)
        else:
            page = show_lines(long, first, last, lambda shown: shown.count("\n") <= MOST_SHOWN, WORDS)
        told = Told(page.text, page=ResultPage(page.text, page.more))
        turns.append(
            Exchange(said, (Step((("more", asked),), (told,)),), answer_with([body_of(page)], spoken), spoken, "more")
        )
    return turns


def body_of(page: ResultPage) -> str:
    """A page without its heading, or the heading alone where nothing was found."""
    _, _, body = page.text.partition("\n")
    return body.rstrip("\n") or page.text
