"""Batches for training, made by worker processes of their own. It knows no network."""

import argparse
import multiprocessing
import time
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rows import Row, copying_row, make_row, repeating_row
from tokenizer import VOCABULARY, Encoder

FIRST_LESSON, LAST_LESSON = 4, 32
SEED = 1
LENGTH, BATCH = 1024, 8
"""Tokens of a row, and rows of a batch."""
REPEATING_SHARE, LONG_SHARE = 0.07, 0.12
"""Of rows, those that only say things again; of batches, those with rows of twice the length."""
NAMES = ("tokens", "positions", "segments", "parents", "weights")


class Batches:
    """Batches for a lesson in copying so many phrases, or, where these are 0, of talk."""

    def __init__(self, options: argparse.Namespace, seen: int, lesson: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.queue = context.Queue(6 * options.workers)
        self.lesson = context.Value("i", lesson)
        shared = (self.queue, self.lesson, options)
        self.workers = [
            context.Process(target=make_batches, args=(*shared, f"{SEED}-{seen}-{number}"), daemon=True)
            for number in range(options.workers)
        ]
        for worker in self.workers:
            worker.start()

    def set_lesson(self, lesson: int) -> None:
        self.lesson.value = lesson

    def next(self) -> dict[str, Tensor]:
        """The next one; RuntimeError when a worker has died."""
        while self.queue.empty():
            if not all(worker.is_alive() for worker in self.workers):
                raise RuntimeError("a worker that makes batches has died; see above")
            time.sleep(0.01)
        arrays: dict[str, np.ndarray] = self.queue.get(timeout=60)
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def stop(self) -> None:
        for worker in self.workers:
            worker.terminate()


def make_batches(queue: Any, lesson: Any, options: argparse.Namespace, seed: str) -> None:
    """Fills the queue for ever; lessons in copying have shorter rows, long talks longer ones, and as many tokens."""
    encoder, random = Encoder(options.out / "tokenizer.json"), Random(seed)
    while True:
        if lesson.value:
            length, count = LENGTH // 4, BATCH * 4
            rows = [copying_row(random, length, VOCABULARY, lesson.value) for _ in range(count)]
        else:
            longer = 2 if random.random() < LONG_SHARE else 1
            length, count = LENGTH * longer, BATCH // longer
            rows = [draw_row(encoder, random, length) for _ in range(count)]
        queue.put({name: np.stack([getattr(row, name) for row in rows]) for name in NAMES})


def draw_row(encoder: Encoder, random: Random, length: int) -> Row:
    if random.random() < REPEATING_SHARE:
        return repeating_row(random, length, VOCABULARY)
    return make_row(encoder, random, length)
