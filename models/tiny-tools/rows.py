"""Training rows: one system prompt and as many independent conversations about it as fit, and pure copying.

It knows no network. A conversation sees the system prompt and itself; its positions go on where the prompt ends,
so one computed prompt serves a dozen conversations.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from random import Random

import numpy as np

from dialogues import Conversation, like_conversations
from scenes import Scene, draw_scene
from tokenizer import Encoder

PROMPT_WEIGHT, ANSWER_WEIGHT, CALL_WEIGHT, TOOL_WEIGHT = 0.1, 2.0, 3.0, 4.0
"""TOOL_WEIGHT is that of the first piece of a tool's name, which says the most. More would drown the values: which tool
is meant is at times not to be known."""
CALLS = ("[TOOL_CALL]", "<tool_call")
NAMES = ('{"name": "', '<tool_call name="')
"""What stands before the name of a tool in a call."""
ALONE = -1
"""Segment of padding: it sees itself and nothing else. The system prompt is segment 0."""
FARTHEST = 1900
"""Positions that are trained; a window of 2,048 tokens has room for an answer behind them."""


@dataclass
class Row:
    """Arrays of one length: tokens, positions, segments, parents, and the loss weight of each token. A token sees its
    segment, its parent and segment 0. `replies` are where a reply begins and ends (its closing token included), with
    its label."""

    tokens: np.ndarray
    positions: np.ndarray
    segments: np.ndarray
    parents: np.ndarray
    weights: np.ndarray
    replies: list[tuple[int, int, str]] = field(default_factory=list)


def make_row(encoder: Encoder, random: Random, length: int, most_tools: int = 12, held_out: bool = False) -> Row:
    """A drawn list of tools with conversations, padded to `length`."""
    while True:
        scene = draw_scene(random, held_out, most_tools)
        prompt = encoder.encode(scene.pieces([]))
        prompt = prompt[: encoder.system_length(prompt)]
        if len(prompt) < 0.8 * length:
            break
    row = empty_row(length)
    put(row, 0, prompt, 0, 0, [PROMPT_WEIGHT] * len(prompt))
    at, parent, misses = len(prompt), 1, 0
    while misses < 3:
        talks = [encode(scene, one, encoder, len(prompt)) for one in like_conversations(scene, random, held_out)]
        shared = length_shared(talks)
        if at + len(talks[0].tokens) > length:
            misses += 1
            continue
        # Now and then the prompt is far away, as it is in a long talk.
        room = max(0, FARTHEST - len(prompt) - max(len(talk.tokens) for talk in talks))
        position = len(prompt) + (random.randint(0, room) if random.random() < 0.3 else 0)
        put(row, at, talks[0].tokens[:shared], parent, position, talks[0].weights[:shared])
        at, segment = at + shared, parent
        for talk in talks:
            if at + len(talk.tokens) - shared <= length:
                segment += 1
                talk.put_rest(row, at, shared, segment, position)
                row.parents[at : at + len(talk.tokens) - shared] = parent
                at += len(talk.tokens) - shared
        parent = segment + 1
    return row


@dataclass
class Encoded:
    """Tokens behind the system prompt, up to the end of the last reply; their loss weights; and the replies."""

    tokens: list[int]
    weights: list[float]
    replies: list[tuple[int, int, str]]

    def put_rest(self, row: Row, at: int, shared: int, segment: int, position: int) -> None:
        """What is its own, behind what it shares with others."""
        put(row, at, self.tokens[shared:], segment, position + shared, self.weights[shared:])
        row.replies += [(at + start - shared, at + end - shared, label) for start, end, label in self.replies]


def encode(scene: Scene, talk: Conversation, encoder: Encoder, skip: int) -> Encoded:
    history, labels = talk
    tokens = encoder.encode(scene.pieces(history))[skip:]
    tokens = tokens[: len(tokens) - tokens[::-1].index(encoder.controls["<|im_end|>"])]
    spans = [(start, end, label) for (start, end), label in zip(encoder.replies(tokens), labels, strict=True)]
    return Encoded(tokens, weigh(tokens, spans, encoder), spans)


def length_shared(talks: Sequence[Encoded]) -> int:
    """How many tokens all begin with; none where there is only one, and never a reply."""
    if not talks[1:]:
        return 0
    alike = takewhile(lambda tokens: len(set(tokens)) == 1, zip(*(talk.tokens for talk in talks), strict=False))
    return min(len(list(alike)), *(talk.replies[0][0] for talk in talks))


def weigh(tokens: list[int], spans: list[tuple[int, int, str]], encoder: Encoder) -> list[float]:
    """Answers weigh more than the rest, calls more than other answers, the first piece of a tool's name most."""
    weights = [PROMPT_WEIGHT] * len(tokens)
    calls = [encoder.plain(call) for call in CALLS]
    for start, end, label in spans:
        is_call = any(tokens[start : start + len(call)] == call for call in calls)
        weight = 0.0 if not label else CALL_WEIGHT if is_call else ANSWER_WEIGHT
        weights[start:end] = [weight] * (end - start)
        if label and is_call:
            for name in names_in(tokens, start, end, encoder):
                weights[name] = TOOL_WEIGHT
    return weights


def names_in(tokens: list[int], start: int, end: int, encoder: Encoder) -> list[int]:
    """Where names of tools begin in a reply."""
    found = []
    for before in (encoder.plain(name) for name in NAMES):
        size = len(before)
        found += [at + size for at in range(start, end - size) if tokens[at : at + size] == before]
    return found


def copying_row(random: Random, length: int, vocabulary: int, most: int) -> Row:
    """Lists of up to `most` short random phrases, said three times in different orders.

    What follows a token is known from the second saying on, and only by looking for what followed it before: the
    order gives nothing away. (Sequences said twice as a whole teach distances instead, which is useless for talk.)
    """
    row = empty_row(length)
    at, segment = 0, 1
    while at < length - 12:
        phrases = [random_tokens(random, vocabulary) for _ in range(random.randint(2, most))]
        tokens: list[int] = []
        weights: list[float] = []
        for saying in range(3):
            random.shuffle(phrases)
            for phrase in phrases:
                tokens += phrase
                weights += [0.0] + [ANSWER_WEIGHT * (saying > 0)] * (len(phrase) - 1)
        tokens, weights = tokens[: length - at], weights[: length - at]
        put(row, at, tokens, segment, random.randint(0, max(0, FARTHEST - length)), weights)
        at, segment = at + len(tokens), segment + 1
    return row


def repeating_row(random: Random, length: int, vocabulary: int) -> Row:
    """Long sequences of few different tokens, said again whole behind something else, as results are.

    Within digits and blanks one token back says little: what follows is known by the last three or four.
    """
    row = empty_row(length)
    at, segment = 0, 1
    while at < length - 40:
        alphabet = [random.randrange(3, vocabulary) for _ in range(random.randint(2, 30))]
        said = random.choices(alphabet, k=random.randint(4, 70))
        opening, closing = (random.sample(range(3, vocabulary), 2) for _ in range(2))
        between = random.choices(random.choice([alphabet, range(3, vocabulary)]), k=random.randint(0, 40))
        tokens = [*opening, *said, *closing, *between, *opening, *said, *closing]
        again = len(said) + 1
        weights = [0.0] * (len(tokens) - again - 1) + [ANSWER_WEIGHT] * again + [0.0]
        tokens, weights = tokens[: length - at], weights[: length - at]
        put(row, at, tokens, segment, random.randint(0, max(0, FARTHEST - length)), weights)
        at, segment = at + len(tokens), segment + 1
    return row


def random_tokens(random: Random, vocabulary: int) -> list[int]:
    return [random.randrange(3, vocabulary) for _ in range(random.randint(2, 8))]


def empty_row(length: int) -> Row:
    whole = np.zeros(length, dtype=np.int64)
    alone = np.full(length, ALONE)
    return Row(whole, whole.copy(), alone, alone.copy(), np.zeros(length, dtype=np.float32))


def put(row: Row, at: int, tokens: list[int], segment: int, position: int, weights: list[float]) -> None:
    part = slice(at, at + len(tokens))
    row.tokens[part], row.weights[part], row.segments[part], row.parents[part] = tokens, weights, segment, segment
    row.positions[part] = np.arange(position, position + len(tokens))
