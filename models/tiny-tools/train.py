"""Trains tiny-tools from nothing: `python models/tiny-tools/train.py --minutes 75 --out DIR`.

The end is kept by the clock: the learning rate falls to zero when the time is over, however busy the machine is.
DIR gets `tokenizer.json`, `model.pt` (every few minutes and at the end) and lines of progress on standard output.
"""

import argparse
import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor

from dialogues import conversation, draw_scene, pieces_of
from muon import Muon
from network import Network, Shape
from rows import ANSWER_WEIGHT, copying_row, make_row, repeating_row
from tokenizer import Encoder, train_tokenizer

OTHER_SHARE = 0.25
"""How many tokens outside answers are guessed at all: logits are a sixth of the work."""
MATRIX_RATE, OTHER_RATE = 0.012, 2e-3
WARM_UNTIL, FULL_UNTIL = 0.01, 0.1
FIRST_LESSON, LAST_LESSON, COPYING_UNTIL = 4, 32, 0.15
SIZE_STEP = 256
"""The number of guessed tokens is a multiple of this: each new matrix size costs oneDNN time and memory."""


def main() -> None:
    options = read_options()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    path = options.out / "tokenizer.json"
    if not path.exists():
        train_tokenizer(texts(Random(options.seed), options.texts), options.vocabulary).save(str(path))
    shape = Shape(options.vocabulary, options.width, options.layers, options.heads, options.inner)
    network = Network(shape)
    if options.start:
        network.load_state_dict(torch.load(options.start)["weights"])
    print(f"{sum(part.numel() for part in network.parameters()):,} parameters, {shape}", flush=True)
    train(network, options)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=75)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--start", type=Path, help="weights to go on from, instead of nothing")
    for name, value in (("width", 224), ("layers", 6), ("heads", 7), ("inner", 576), ("vocabulary", 1536)):
        parser.add_argument(f"--{name}", type=int, default=value)
    for name, value in (("length", 1024), ("batch", 4), ("threads", 2), ("seed", 1), ("texts", 20000)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--rate", type=float, default=1.0, help="a factor on the learning rates")
    parser.add_argument("--repeating", type=float, default=0.05, help="share of rows that only say things again")
    parser.add_argument("--save-minutes", type=float, default=5)
    return parser.parse_args()


def texts(random: Random, count: int) -> Iterator[str]:
    """What the tokenizer learns from: whole prompts, so that frequent words of the prompt become one piece."""
    for _ in range(count // 4):
        scene = draw_scene(random)
        yield from (piece.text for piece in pieces_of(conversation(scene, random), scene.tools))
        for _ in range(2):
            yield from (message.text for message in conversation(scene, random))


def train(network: Network, options: argparse.Namespace) -> None:
    """Steps until the time is over."""
    matrices = [part for name, part in network.named_parameters() if part.ndim == 2 and "embedding" not in name]
    others = [part for name, part in network.named_parameters() if part.ndim != 2 or "embedding" in name]
    optimizers = [Muon(matrices), torch.optim.AdamW(others, betas=(0.9, 0.98), weight_decay=0.0)]
    batches = Batches(options)
    begun = saved = shown = time.monotonic()
    step = seen = 0
    sums = np.zeros(3)
    if options.start:
        batches.lesson.value = 0
    while (done := (time.monotonic() - begun) / (60 * options.minutes)) < 1:
        batch = batches.next()
        set_rates(optimizers, done, options.rate)
        sums += descend(network, optimizers, batch)
        step, seen = step + 1, seen + int((batch["segments"] >= 0).sum())
        if time.monotonic() - shown > 20:
            minutes = (time.monotonic() - begun) / 60
            loss, right = sums[0] / sums[2], sums[1] / sums[2]
            rate = seen / (60 * minutes)
            batches.lesson.value = next_lesson(batches.lesson.value, right, done)
            print(f"{minutes:6.1f} min  step {step}  {seen / 1e6:.2f} M tokens  {rate:,.0f}/s  "
                  f"answers: loss {loss:.4f}, right {right:.4f}", flush=True)  # fmt: skip
            sums, shown = np.zeros(3), time.monotonic()
        if time.monotonic() - saved > 60 * options.save_minutes:
            save(network, options, step, seen)
            saved = time.monotonic()
    batches.stop()
    save(network, options, step, seen)


def next_lesson(phrases: int, right: float, done: float) -> int:
    """How many random phrases the network copies now; 0 for talk, when it copies well or the time is over."""
    if phrases == 0 or done > COPYING_UNTIL or (phrases >= LAST_LESSON and right > 0.9):
        return 0
    return 2 * phrases if right > 0.8 and phrases < LAST_LESSON else phrases


def set_rates(optimizers: list[torch.optim.Optimizer], done: float, whole: float) -> None:
    """Up in the first hundredth of the time, level, then straight down to zero."""
    factor = whole * min(1.0, done / WARM_UNTIL + 0.01, (1 - done) / (1 - FULL_UNTIL))
    for optimizer, rate in zip(optimizers, (MATRIX_RATE, OTHER_RATE), strict=True):
        for group in optimizer.param_groups:
            group["lr"] = rate * factor


def descend(network: Network, optimizers: list[torch.optim.Optimizer], batch: dict[str, Tensor]) -> np.ndarray:
    """One step; gives summed loss, right guesses and number of the answer tokens."""
    # The token behind the end of one conversation opens the next: it belongs to no one's past.
    weights = batch["weights"][:, 1:] * same_talk(batch["segments"])
    chosen = choose(weights.flatten())
    targets, weights = batch["tokens"][:, 1:].flatten()[chosen], weights.flatten()[chosen]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        states = network(batch["tokens"], batch["positions"], visible(batch["segments"]))
        logits = network.logits(states[:, :-1].flatten(0, 1)[chosen]).float()
    losses = functional.cross_entropy(logits, targets, reduction="none")
    ((losses * weights).sum() / weights.sum()).backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    answers = weights >= ANSWER_WEIGHT
    right = (logits.argmax(-1) == targets) & answers
    return np.array([float(losses.detach()[answers].sum()), int(right.sum()), int(answers.sum())])


def choose(weights: Tensor) -> Tensor:
    """Where to guess: the answers and a share of the rest, cut to a multiple of SIZE_STEP."""
    is_answer = weights >= ANSWER_WEIGHT
    order = is_answer * 2 + (weights > 0) * torch.rand_like(weights)
    answers, others = int(is_answer.sum()), int(((weights > 0) & ~is_answer).sum())
    count = answers + int(others * OTHER_SHARE)
    return order.topk(count - count % SIZE_STEP).indices


def visible(segments: Tensor) -> Tensor:
    """(rows, length, length): true where a token may look at an earlier one of its talk or of the system prompt."""
    queries, keys = segments[:, :, None], segments[:, None, :]
    length = segments.shape[1]
    before = torch.ones(length, length, dtype=torch.bool).tril()
    alone = torch.eye(length, dtype=torch.bool)
    return before & ((queries == keys) & (queries >= 0) | (keys == 0) & (queries >= 0)) | alone


def same_talk(segments: Tensor) -> Tensor:
    """For each token but the first, whether it and the one before are of one conversation; padding is of none."""
    return (segments[:, 1:] == segments[:, :-1]) & (segments[:, 1:] >= 0)


def save(network: Network, options: argparse.Namespace, step: int, seen: int) -> None:
    state = {"weights": network.state_dict(), "shape": asdict(network.shape), "steps": step, "tokens": seen}
    partial = options.out / "model.pt.partial"
    torch.save(state, partial)
    partial.replace(options.out / "model.pt")


class Batches:
    """Batches made by one worker process; `lesson` is how many phrases to copy, 0 for talk."""

    def __init__(self, options: argparse.Namespace) -> None:
        context = multiprocessing.get_context("spawn")
        self.queue, self.lesson = context.Queue(6), context.Value("i", FIRST_LESSON)
        arguments = (self.queue, self.lesson, options)
        self.worker = context.Process(target=make_batches, args=arguments, daemon=True)
        self.worker.start()

    def next(self) -> dict[str, Tensor]:
        arrays: dict[str, np.ndarray] = self.queue.get(timeout=120)
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def stop(self) -> None:
        self.worker.terminate()


def make_batches(queue: Any, lesson: Any, options: argparse.Namespace) -> None:
    """Fills the queue for ever; lessons in copying have shorter rows, and as many tokens."""
    encoder, random = Encoder(options.out / "tokenizer.json"), Random(options.seed + 1)
    while True:
        if lesson.value:
            length, count = options.length // 4, options.batch * 4
            rows = [copying_row(random, length, options.vocabulary, lesson.value) for _ in range(count)]
        else:
            rows = [
                repeating_row(random, options.length, options.vocabulary)
                if random.random() < options.repeating
                else make_row(encoder, random, options.length)
                for _ in range(options.batch)
            ]
        names = ("tokens", "positions", "segments", "weights")
        queue.put({name: np.stack([getattr(row, name) for row in rows]) for name in names})


if __name__ == "__main__":
    main()
