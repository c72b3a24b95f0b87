"""Training rows: one system prompt and as many independent conversations about it as fit, and pure copying.

It knows no network. A conversation sees the system prompt and itself; its positions go on where the prompt ends,
so one computed prompt serves a dozen conversations.
"""

from dataclasses import dataclass
from random import Random

import numpy as np

from dialogues import Scene, conversation, draw_scene, pieces_of
from tokenizer import Encoder

PROMPT_WEIGHT, ANSWER_WEIGHT, CALL_WEIGHT, FIRST_WEIGHT = 0.2, 2.0, 3.0, 6.0
ALONE = -1
"""Segment of padding: it sees itself and nothing else. The system prompt is segment 0."""


@dataclass
class Row:
    """Arrays of one length: tokens, positions, segments, and the loss weight of each token."""

    tokens: np.ndarray
    positions: np.ndarray
    segments: np.ndarray
    weights: np.ndarray


def make_row(encoder: Encoder, random: Random, length: int) -> Row:
    """A drawn list of tools with conversations, padded to `length`."""
    scene = draw_scene(random)
    prompt = encoder.encode(pieces_of([], scene.tools))
    prompt = prompt[: encoder.system_length(prompt)]
    row = empty_row(length)
    put(row, 0, prompt, 0, 0, [PROMPT_WEIGHT] * len(prompt))
    # Now and then the prompt is far away, as it is in a long talk.
    gap = random.randint(0, 900) if random.random() < 0.25 else 0
    at, segment, misses = len(prompt), 1, 0
    while misses < 3:
        tokens, weights = make_conversation(scene, encoder, random, len(prompt))
        if at + len(tokens) > length:
            misses += 1
            continue
        put(row, at, tokens, segment, len(prompt) + gap, weights)
        at, segment = at + len(tokens), segment + 1
    return row


def make_conversation(scene: Scene, encoder: Encoder, random: Random, skip: int) -> tuple[list[int], list[float]]:
    """Tokens behind the system prompt, up to the end of the last answer, and their loss weights."""
    tokens = encoder.encode(pieces_of(conversation(scene, random), scene.tools))
    last = len(tokens) - tokens[::-1].index(encoder.controls["<|im_end|>"])
    return tokens[skip:last], weigh(tokens[:last], encoder)[skip:]


def weigh(tokens: list[int], encoder: Encoder) -> list[float]:
    """Answers weigh more than the rest, calls more than other answers, and the first token, the decision, most."""
    call = encoder.plain("[TOOL_CALL]")
    weights: list[float] = []
    weight = PROMPT_WEIGHT
    for index, is_answer in enumerate(encoder.answers(tokens)):
        if not is_answer:
            weight = PROMPT_WEIGHT
        elif weight == PROMPT_WEIGHT:
            weight = CALL_WEIGHT if tokens[index : index + len(call)] == call else ANSWER_WEIGHT
            weights.append(FIRST_WEIGHT)
            continue
        weights.append(weight)
    return weights


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
        put(row, at, tokens, segment, random.randint(0, 900), weights)
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
        put(row, at, tokens, segment, random.randint(0, 900), weights)
        at, segment = at + len(tokens), segment + 1
    return row


def random_tokens(random: Random, vocabulary: int) -> list[int]:
    return [random.randrange(3, vocabulary) for _ in range(random.randint(2, 8))]


def empty_row(length: int) -> Row:
    whole = np.zeros(length, dtype=np.int64)
    return Row(whole, whole.copy(), np.full(length, ALONE), np.zeros(length, dtype=np.float32))


def put(row: Row, at: int, tokens: list[int], segment: int, position: int, weights: list[float]) -> None:
    part = slice(at, at + len(tokens))
    row.tokens[part], row.weights[part], row.segments[part] = tokens, weights, segment
    row.positions[part] = np.arange(position, position + len(tokens))
