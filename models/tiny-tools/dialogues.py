"""Puts samples together: a list of tools and conversations about it, written in the prompt of the chat itself.

The words of the prompt come from `rkllm_chat`, the descriptions from its board server; nothing is copied here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from board_questions import Question, board_question
from board_results import board_result
from catalogued import Telling
from exchanges import Exchange, Step, Told, answer_with
from lent import own
from misfits import misfit
from rkllm_chat.core.messages import Message
from rkllm_chat.prompt.tool_ranking import select_few_tools
from saying import draw_language
from scenes import Scene
from talk import REFUSALS, small_talk
from turns import ask_again, ask_corrected, ask_in_chain, ask_item, ask_long, ask_two
from vocabulary import place
from written import Item

CALL_ONLY_SHARE = 0.8
LIKE_TALKS = 5
"""How many conversations more begin with the same lines on tools."""
MISRANKED_SHARE, GO_ON_SHARE = 0.12, 0.35
NEAR_SHARE, NEAR_DRAWS = 0.7, 10
"""Of misfits beside told tools, those for which the ranking would tell of one; how often one is drawn for that."""
FEW, SHORT_SHARE = 2, 0.25
"""Of two calls and chains, those of tools with so few parameters."""
NAMED_SHARE = 0.5
"""Of two calls and chains in training, those whose values are all told by name."""
MANY_SHARE = 0.6
"""Of questions for one tool in training, those with the most values of three that are drawn: these are learnt last."""
TURNS = ([1, 2, 3, 4, 6, 10, 20], [12, 4, 2, 1, 0.5, 0.25, 0.12])
# What has most to copy is hardest, and asked for more often.
ASKED_OFTEN = {"read_file": 4, "list_files": 2, "calculate": 2}


@dataclass(frozen=True)
class Turn:
    """An exchange, and what a next question may go on from."""

    exchange: Exchange
    item: Item | None = None
    question: Question | None = None


Ask = Callable[[Scene, Random, bool], Turn]


def draw_turn(scene: Scene, random: Random, held_out: bool, before: Turn | None = None) -> Turn:
    """One more question about the tools of a scene."""
    if before and before.item and before.question and random.random() < 0.2:
        again = ask_again(before.item, before.question, random, held_out)
        if again:
            return Turn(again[1], before.item, again[0])
    kinds: dict[Ask, float] = {talk: 0.03, refuse: 0.15}
    if scene.board:
        kinds |= {ask_board: 0.9 * len(scene.board) / len(scene.tools), two: 0.0 if held_out else 0.12}
    if scene.items:
        one, joined = (0.66, {two: 0.22, chain: 0.24}) if held_out else (0.8, {two: 0.24, chain: 0.32})
        kinds |= {ask_one: one * len(scene.items) / len(scene.tools), **joined, corrected: 0.03}
    ask = random.choices(list(kinds), list(kinds.values()))[0]
    return ask(scene, random, held_out)


def ask_one(scene: Scene, random: Random, held_out: bool) -> Turn:
    turns: list[Turn] = []
    for _ in range(1 if held_out or random.random() > MANY_SHARE else 3):
        item = random.choice(scene.items)
        question, exchange = ask_item(item, random, draw_language(random, held_out), held_out)
        turns.append(Turn(exchange, item, question))
    return max(turns, key=lambda one: len(one.question.arguments) if one.question else 0)


def two(scene: Scene, random: Random, held_out: bool) -> Turn:
    board = () if held_out else map(own, scene.board)  # not every tool is held out in every language
    items = short_ones((*scene.items, *board), random, held_out)
    exchange = ask_two(items, random, draw_language(random, held_out), held_out, by_name(random, held_out))
    return Turn(exchange) if exchange else draw_turn(scene, random, held_out)


def chain(scene: Scene, random: Random, held_out: bool) -> Turn:
    items = short_ones(scene.items, random, held_out)
    exchange = ask_in_chain(items, random, draw_language(random, held_out), held_out, by_name(random, held_out))
    return Turn(exchange) if exchange else two(scene, random, held_out)


def short_ones(items: Sequence[Item], random: Random, held_out: bool) -> Sequence[Item]:
    """In training some of what is joined has few values: what is to be learnt there is to part two wishes."""
    few = [one for one in items if len(one.parameters) <= FEW]
    return few if few and not held_out and random.random() < SHORT_SHARE else items


def by_name(random: Random, held_out: bool) -> bool | None:
    """True where all values are to be told by name; None where as it comes, as held-out ones do."""
    return None if held_out or random.random() > NAMED_SHARE else True


def corrected(scene: Scene, random: Random, held_out: bool) -> Turn:
    exchange = ask_corrected(random.choice(scene.items), scene.tools, random, draw_language(random, held_out), held_out)
    return Turn(exchange) if exchange else ask_one(scene, random, held_out)


def ask_board(scene: Scene, random: Random, held_out: bool) -> Turn:
    weights = [ASKED_OFTEN.get(tool.name, 1) for tool in scene.board]
    return ask_board_tool(random.choices(scene.board, weights)[0].name, random, held_out)


def ask_board_tool(tool: str, random: Random, held_out: bool) -> Turn:
    question = board_question(tool, random, held_out)
    text, worked = board_result(tool, question.arguments, random)
    step = Step(((tool, question.arguments),), (Told(text, worked),))
    exchange = Exchange(question.said, (step,), answer_with([text], question.language), question.language, "board")
    return Turn(exchange, None, question)


def talk(_scene: Scene, random: Random, held_out: bool) -> Turn:
    said, answer = small_talk(random, held_out)
    return Turn(Exchange(said, (), answer, kind="talk"))


def refuse(scene: Scene, random: Random, held_out: bool) -> Turn:
    """A request that none of the tools fits: something else altogether, or a tool that is not in this list."""
    question = misfit(scene.tools, scene.missing, random, held_out)
    return Turn(Exchange(question.said, (), REFUSALS[question.language], question.language, "refusal"))


def refuse_near(scene: Scene, random: Random, held_out: bool) -> Turn:
    """A request that none of the tools fits, though it has a word for which the ranking would tell of one."""
    for _ in range(NEAR_DRAWS):
        turn = refuse(scene, random, held_out)
        if select_few_tools(scene.index, turn.exchange.said, {}):
            break
    return turn


def follow_up(before: Turn, random: Random) -> Turn | None:
    """ "And in Oslo?" behind a question for the time, now and then."""
    question = before.question
    if not question or question.tool != "get_time" or question.language != "en" or random.random() < 0.6:
        return None
    value = place(random)
    said = random.choice(["and in {}?", "And in {}?", "what about {}?", "And {}?", "and {}", "How about {}?", "in {}?"])
    again = Question(said.format(value), "get_time", {"place": value})
    text, worked = board_result("get_time", again.arguments, random)
    step = Step((("get_time", again.arguments),), (Told(text, worked),))
    return Turn(Exchange(again.said, (step,), answer_with([text], "en"), kind="board"), None, again)


def draw_turns(scene: Scene, random: Random, held_out: bool) -> list[Exchange]:
    """What is asked and answered in one conversation."""
    if scene.items and random.random() < 0.02:
        return ask_long(random.choice(scene.items), random, draw_language(random, held_out), held_out)
    turns: list[Turn] = []
    for _ in range(random.choices(*TURNS)[0]):
        last = turns[-1] if turns else None
        follow = follow_up(last, random) if last and scene.board else None
        turns.append(follow or draw_turn(scene, random, held_out, last))
    return [turn.exchange for turn in turns]


Messages = list[tuple[Message, str]]
Talk = list[tuple[Exchange, Messages]]
"""Exchanges with their messages, and a label for each reply, "" for what is not to be learnt."""
Conversation = tuple[list[Message], list[str]]
"""A history, and the labels of its replies."""


def tell(scene: Scene, turns: Sequence[Exchange], random: Random) -> Talk:
    """Each exchange with its messages, and, where the list is a catalogue, with what is told and asked of tools."""
    telling = None if scene.level == "full" else Telling(scene.lines, scene.index, scene.level != "servers", random)
    told: Talk = []
    for turn in turns:
        helped, lines = telling.tell(turn) if telling else (turn, ())
        told.append((helped, with_lines(helped, lines, scene)))
    return told


def with_lines(exchange: Exchange, lines: tuple[str, ...], scene: Scene) -> Messages:
    (asked, label), *rest = exchange.messages(scene.tools, scene.form)
    return [(replace(asked, tool_lines=lines), label), *rest]


def conversation(scene: Scene, random: Random, held_out: bool = False) -> Conversation:
    return cut_short(tell(scene, draw_turns(scene, random, held_out), random), random)


def like_conversations(scene: Scene, random: Random, held_out: bool = False) -> list[Conversation]:
    return [cut_short(talk, random) for talk in like_talks(scene, random, held_out)]


def cut_short(talk: Talk, random: Random) -> Conversation:
    """A call is harder to learn than copying its result: many talks end with the call, so more fit a row."""
    said = [one for _, messages in talk for one in messages]
    if random.random() < CALL_ONLY_SHARE and len(said) > 2 and said[-2][0].role == "tool":
        while said[-1][0].role != "assistant" or (len(said) > 1 and said[-2][0].role == "tool"):
            said.pop()
    return [message for message, _ in said], [label for message, label in said if message.role == "assistant"]


def like_talks(scene: Scene, random: Random, held_out: bool = False) -> list[Talk]:
    """A talk, and others that begin with the same lines on tools, which need be computed only once."""
    talk = tell(scene, draw_turns(scene, random, held_out), random)
    lines = talk[0][1][0][0].tool_lines
    part = told_part(scene, lines)
    return [talk, *(like_talk(scene, part, lines, random, held_out) for _ in range(LIKE_TALKS if part.tools else 0))]


def told_part(scene: Scene, lines: Sequence[str]) -> Scene:
    """The tools of a scene that were told of."""
    told = {name for name, line in scene.lines.items() if line in lines} if lines else set()
    items = tuple(one for one in scene.items if one.tool.name in told)
    return replace(scene, board=tuple(one for one in scene.board if one.name in told), items=items)


def like_talk(scene: Scene, part: Scene, lines: tuple[str, ...], random: Random, held_out: bool) -> Talk:
    """A question with these lines beside it, mostly for the tools in their order, as the ranking finds most; at times
    more behind it."""
    turn = draw_turn(part, random, held_out)
    while not is_likely(turn.exchange, scene, lines) and random.random() > MISRANKED_SHARE:
        turn = draw_turn(part, random, held_out)
    if turn.exchange.kind == "refusal" and random.random() < NEAR_SHARE:
        turn = refuse_near(part, random, held_out)
    talk = [(turn.exchange, with_lines(turn.exchange, lines, scene))]
    telling = Telling(scene.lines, scene.index, scene.level != "servers", random)
    telling.told |= set(lines)
    while random.random() < GO_ON_SHARE:
        turn = draw_turn(scene, random, held_out, turn)
        helped, more = telling.tell(turn.exchange)
        talk.append((helped, with_lines(helped, more, scene)))
    return talk


def is_likely(exchange: Exchange, scene: Scene, lines: Sequence[str]) -> bool:
    """Whether it calls tools in the order of these lines, the first of them first, or none."""
    called = dict.fromkeys(scene.lines.get(name) for step in exchange.steps for name, _ in step.calls)
    places = [lines.index(line) for line in called if line in lines]
    return places == sorted(places) and places[:1] in ([], [0])
