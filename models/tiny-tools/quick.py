"""Exact replies of a network on what training never saw.

A reply is exactly what greedy decoding would write when each of its tokens is the likeliest behind the right ones
before it; so one pass over packed rows tells, without decoding. It knows no chat; evaluate.py drives that.
"""

from collections import Counter
from random import Random

import torch

from network import Network, visible
from rows import Row, make_row
from tokenizer import Encoder

SEED, LENGTH = "held out", 1024
LISTS = (3, 12)
"""The most tools in the lists of one half of the rows, and of the other."""


@torch.no_grad()
def quick_figures(network: Network, encoder: Encoder, rows: int, device: str = "cpu") -> dict[str, str]:
    """Label -> "exact share of how many replies", the same samples each time."""
    random = Random(SEED)
    counts: dict[str, Counter[str]] = {}
    for number in range(rows):
        most_tools = LISTS[number % len(LISTS)]
        row = make_row(encoder, random, LENGTH, most_tools, held_out=True)
        for label, is_right in judge(network, row, device):
            for name in (label, f"all {most_tools}" + label[label.rindex(".") :]):
                counts.setdefault(name, Counter()).update([is_right])
    return {
        name: f"{100 * count[True] / count.total():.1f} % of {count.total()}" for name, count in sorted(counts.items())
    }


def judge(network: Network, row: Row, device: str) -> list[tuple[str, bool]]:
    arrays = (row.tokens, row.positions, row.segments, row.parents)
    tokens, positions, segments, parents = (torch.from_numpy(array)[None].to(device) for array in arrays)
    with torch.autocast(device, dtype=torch.bfloat16):
        states = network(tokens, positions, visible(segments, parents))
        guessed = network.logits(states)[0].argmax(-1)
    right = (guessed[:-1] == tokens[0, 1:]).tolist()
    return [(label, all(right[start - 1 : end - 1])) for start, end, label in row.replies if label]
