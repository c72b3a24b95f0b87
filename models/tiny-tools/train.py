"""Makes tiny-tools: `python models/tiny-tools/train.py DIR`. Stop it at any time; the same line goes on.

DIR gets `tokenizer.json`, `state.pt` (all that is needed to go on, every few minutes and at the end), `log.jsonl`
(losses, and now and then the figures of quick.py), and at the end `tiny-tools.gguf`. How far training is counts in
tokens, not by the clock: level rates until DECAY_FROM of `--tokens`, then straight down to zero.
"""

import argparse
import json
import signal
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor
from torch.optim import AdamW

from batches import FIRST_LESSON, LAST_LESSON, SEED, Batches
from dialogues import conversation
from export import check_prompt, write_gguf
from muon import Muon
from network import Network, Shape, visible
from quick import quick_figures
from rows import ANSWER_WEIGHT, TOOL_WEIGHT
from scenes import draw_scene
from tokenizer import Encoder, train_tokenizer

RATES = {"matrices": 0.006, "embedding": 1e-3, "norms": 5e-3}
WARM_TOKENS, DECAY_FROM = 200_000, 0.4
AVERAGE = 0.998
"""What is kept of the averaged weights in a step."""
OTHERS_SHARE = 0.15
"""Of the tokens outside answers, those that are guessed too."""
TEXTS = 20_000
"""From which the tokenizer learns."""
SAVE_S, MEASURE_S = 5 * 60, 30 * 60
COPYING_UNTIL = 0.03
"""The share of all tokens at which pure copying ends at the latest."""
SIZE_STEP = 256
"""The number of guessed tokens is a multiple of this: each new matrix size costs oneDNN time and memory."""


def main() -> None:
    options = read_options()
    check_prompt()
    options.out.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore", message=".*Mismatch dtype.*")
    torch.set_num_threads(options.threads)
    torch.manual_seed(SEED)
    path = options.out / "tokenizer.json"
    if not path.exists():
        train_tokenizer(texts(Random(SEED), TEXTS)).save(str(path))
    training = Training(options)
    if (options.out / "state.pt").exists():
        training.restore(torch.load(options.out / "state.pt", map_location=options.device))
    print(f"{sum(part.numel() for part in training.network.parameters()):,} parameters, {training.network.shape}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        training.run()
    except KeyboardInterrupt:
        raise SystemExit("stopped; the same command goes on") from None
    finally:
        training.save()
        training.batches.stop()
    write_gguf(training.average, training.network.shape, path, options.out / "tiny-tools.gguf", training.seen)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="a folder for all that training keeps")
    parser.add_argument("--tokens", type=float, default=356e6, help="how many tokens there will be in all")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--workers", type=int, default=1, help="processes that make batches")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--compile", action="store_true", help="a seventh faster, after minutes of compiling")
    return parser.parse_args()


def texts(random: Random, count: int) -> Iterator[str]:
    """What the tokenizer learns from: whole prompts, so that frequent words of the prompt become one piece."""
    for _ in range(count // 4):
        scene = draw_scene(random)
        yield from (piece.text for piece in scene.pieces(conversation(scene, random)[0]))
        for _ in range(2):
            yield from (message.text for message in conversation(scene, random)[0])


class Training:
    """A network on its way, with all that must be kept to go on: optimizers, the average, the lesson, the count."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.network = Network(Shape()).to(options.device)
        self.average = {name: part.detach().clone() for name, part in self.network.state_dict().items()}
        parts = list(self.network.named_parameters())
        matrices = [part for name, part in parts if part.ndim == 2 and "embedding" not in name]
        others = [self.network.embedding.weight], [part for _, part in parts if part.ndim == 1]
        self.optimizers = [Muon(matrices), *(AdamW(some, betas=(0.9, 0.98), weight_decay=0) for some in others)]
        self.seen, self.step, self.lesson, self.minutes = 0, 0, FIRST_LESSON, 0.0
        if options.compile:
            for block in self.network.blocks:
                block.compile(dynamic=False)

    def restore(self, state: dict[str, Any]) -> None:
        self.network.load_state_dict(state["weights"])
        self.average = state["average"]
        for optimizer, kept in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(kept)
        self.seen, self.step, self.lesson, self.minutes = (
            state[name] for name in ("seen", "step", "lesson", "minutes")
        )

    def save(self) -> None:
        counts = {"seen": self.seen, "step": self.step, "lesson": self.lesson, "minutes": self.minutes}
        optimizers = [optimizer.state_dict() for optimizer in self.optimizers]
        state = {"weights": self.network.state_dict(), "average": self.average, "optimizers": optimizers, **counts}
        partial = self.options.out / "state.pt.partial"
        torch.save(state, partial)
        partial.replace(self.options.out / "state.pt")

    def run(self) -> None:
        """Steps until all tokens are seen."""
        self.batches = Batches(self.options, self.seen, self.lesson)
        begun, before = time.monotonic(), self.minutes
        shown = saved = measured = begun
        sums = np.zeros(5)
        while (done := self.seen / self.options.tokens) < 1:
            batch = {name: part.to(self.options.device) for name, part in self.batches.next().items()}
            self.set_rates(done)
            sums += self.descend(batch)
            now = time.monotonic()
            self.minutes = before + (now - begun) / 60
            if now - shown > 30:
                self.tell(sums)
                self.move_on(sums[1] / sums[2], done)
                sums, shown = np.zeros(5), now
            if now - saved > SAVE_S:
                self.save()
                saved = now
            if now - measured > MEASURE_S:
                self.measure()
                measured = time.monotonic()
        self.measure()

    def move_on(self, right: float, done: float) -> None:
        """On to the next lesson when this one is learnt."""
        if self.lesson and (done > COPYING_UNTIL or (self.lesson >= LAST_LESSON and right > 0.9)):
            self.lesson = 0
        elif self.lesson and right > 0.8:
            self.lesson = min(LAST_LESSON, 2 * self.lesson)
        self.batches.set_lesson(self.lesson)

    def set_rates(self, done: float) -> None:
        factor = min(1.0, self.seen / WARM_TOKENS + 0.01, (1 - done) / (1 - DECAY_FROM))
        for optimizer, rate in zip(self.optimizers, RATES.values(), strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * factor

    def descend(self, batch: dict[str, Tensor]) -> np.ndarray:
        """One step; gives answers' summed loss, right guesses and number, and these two for first pieces of names."""
        # The token behind the end of one conversation opens the next: it belongs to no one's past.
        weights = batch["weights"][:, 1:] * same_talk(batch["segments"])
        chosen = choose(weights.flatten())
        targets, weights = batch["tokens"][:, 1:].flatten()[chosen], weights.flatten()[chosen]
        with torch.autocast(self.options.device, dtype=torch.bfloat16):
            seen = visible(batch["segments"], batch["parents"])
            states = self.network(batch["tokens"], batch["positions"], seen)
            logits = self.network.logits(states[:, :-1].flatten(0, 1)[chosen]).float()
        losses = functional.cross_entropy(logits, targets, reduction="none")
        ((losses * weights).sum() / weights.sum()).backward()
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            for name, part in self.network.state_dict().items():
                self.average[name].lerp_(part, 1 - min(AVERAGE, self.step / (self.step + 10)))
        self.step, self.seen = self.step + 1, self.seen + int((batch["segments"] >= 0).sum())
        answers = weights >= ANSWER_WEIGHT
        right = (logits.argmax(-1) == targets) & answers
        kinds = (answers, weights == TOOL_WEIGHT)
        counts = (count for kind in kinds for count in ((right & kind).sum(), kind.sum()))
        return np.array([float(losses.detach()[answers].sum()), *map(int, counts)])

    def tell(self, sums: np.ndarray) -> None:
        loss, right, names = sums[0] / sums[2], sums[1] / sums[2], sums[3] / max(1, sums[4])
        self.log(loss=round(loss, 4), right=round(right, 4), names=round(names, 4), copying=self.lesson)

    def measure(self) -> None:
        """Figures of the averaged weights on what training never saw."""
        current = {name: part.clone() for name, part in self.network.state_dict().items()}
        self.network.load_state_dict(self.average)
        figures = quick_figures(self.network, Encoder(self.options.out / "tokenizer.json"), 48, self.options.device)
        self.network.load_state_dict(current)
        self.log(figures=figures)

    def log(self, **values: Any) -> None:
        """A line of what is known now, in the file and on standard output."""
        line = {"minutes": round(self.minutes, 1), "step": self.step, "tokens": self.seen, **values}
        with (self.options.out / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)


def choose(weights: Tensor) -> Tensor:
    """Where to guess: the answers and a share of the rest, cut to a multiple of SIZE_STEP."""
    is_answer = weights >= ANSWER_WEIGHT
    order = is_answer * 2 + (weights > 0) * torch.rand_like(weights)
    answers, others = int(is_answer.sum()), int(((weights > 0) & ~is_answer).sum())
    count = answers + int(others * OTHERS_SHARE)
    return order.topk(max(SIZE_STEP, count - count % SIZE_STEP)).indices


def same_talk(segments: Tensor) -> Tensor:
    """For each token but the first, whether it and the one before are of one conversation; padding is of none."""
    return (segments[:, 1:] == segments[:, :-1]) & (segments[:, 1:] >= 0)


if __name__ == "__main__":
    main()
