"""The network: a Qwen3-shaped transformer in PyTorch, with attention that follows a given mask.

It knows neither text nor tokens' meaning; `export.py` writes the same tensors as a GGUF for llama.cpp.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

EMBEDDING_SIZE = 0.1
LOOK_BACK, LOOK_BACK_GAIN, LOOK_BACK_PAIRS = (1, 2, 3), 2.5, 4
GATHER_PAIRS = range(4, 9)
"""Pairs of a rotary embedding that stay alike for about ten tokens: a head of these takes the mean of what was near."""
CONTENT_FROM, CONTENT_GAIN = 12, 1.3
"""Pairs from here on hardly turn within a window: what is compared there is content, at any distance."""
LOOK_BACK_SHARE, PASS_SHARE = 0.15, 0.1
"""How much of what heads see they add at first: about as much as a token's own embedding."""
CHUNK = 256
"""Queries that attend together: none of them computes keys behind the last of them."""


@dataclass(frozen=True)
class Shape:
    """The sizes of a network, as they are stored beside its weights."""

    vocabulary: int = 2048
    width: int = 256
    layers: int = 8
    heads: int = 4
    inner: int = 512
    context: int = 2048
    rope_base: float = 1_000_000.0
    norm_epsilon: float = 1e-5

    @property
    def head_width(self) -> int:
        return self.width // self.heads


class Network(nn.Module):
    """Tokens (rows, length) in, hidden states (rows, length, width) out; `logits` gives the next token's."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.width, eps=shape.norm_epsilon)
        nn.init.normal_(self.embedding.weight, std=EMBEDDING_SIZE)
        nn.init.constant_(self.norm.weight, 0.3)
        begin_with_copying(self)

    def forward(self, tokens: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """`positions` as tokens; `mask` (rows, length, length) is true where a query may look at a key."""
        rotation = rotation_of(positions, self.shape)
        states = self.embedding(tokens)
        kind = wanted_type(states)
        closed = torch.zeros(mask.shape, dtype=kind, device=mask.device).masked_fill(~mask, float("-inf")).unsqueeze(1)
        for block in self.blocks:
            states = block(states, rotation, closed)
        return self.norm(states)

    def logits(self, states: Tensor) -> Tensor:
        return functional.linear(states, self.embedding.weight)


class Block(nn.Module):
    """Attention and a gated feed-forward layer, each behind a norm and added to what came in."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.attention_norm = nn.RMSNorm(shape.width, eps=shape.norm_epsilon)
        self.query, self.key, self.value = (matrix(shape.width, shape.width) for _ in range(3))
        self.query_norm, self.key_norm = (nn.RMSNorm(shape.head_width, eps=shape.norm_epsilon) for _ in range(2))
        self.output = matrix(shape.width, shape.width, gain=0.1)
        self.inner_norm = nn.RMSNorm(shape.width, eps=shape.norm_epsilon)
        self.gate, self.up = (matrix(shape.width, shape.inner) for _ in range(2))
        self.down = matrix(shape.inner, shape.width, gain=0.1)

    def forward(self, states: Tensor, rotation: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        states = states + self.attend(self.attention_norm(states), rotation, mask)
        inner = self.inner_norm(states)
        return states + self.down(functional.silu(self.gate(inner)) * self.up(inner))

    def attend(self, states: Tensor, rotation: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        rows, length, width = states.shape
        query, key, value = (
            layer(states).view(rows, length, self.heads, -1).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        query, key = rotate(self.query_norm(query), rotation), rotate(self.key_norm(key), rotation)
        mixed = attend_in_chunks(query, key, value, mask)
        return self.output(mixed.transpose(1, 2).reshape(rows, length, width))


@torch.no_grad()
def begin_with_copying(network: Network) -> None:
    """Starts the network as one that can nearly copy: what stood behind an earlier like token is passed on.

    Copying takes two steps, "what stood before each token" and "where did what stands before me stand"; learned
    together from nothing they cost millions of tokens, and both are known. The first embedding column is the same for
    all tokens: heads of the first block turn it into a query and a key that match at their distance. Heads of the
    second block look for tokens behind the one that stands here, and for places with like words around them. Every
    later block passes on what its heads see.
    """
    shape, first, second = network.shape, network.blocks[0], network.blocks[1]
    network.embedding.weight[:, 0] = 6 * EMBEDDING_SIZE
    seen = beside_first(orthogonal(shape.head_width, shape.width - 1))
    added = [beside_first(orthogonal(shape.head_width, shape.width - 1)) for _ in range(shape.heads)]
    for head, said in enumerate(added):
        first.value.weight[rows_of(head, shape)] = seen
        first.output.weight[:, rows_of(head, shape)] = LOOK_BACK_SHARE * said.T
    for head, distance in enumerate(LOOK_BACK):
        look_at(first, head, distance, range(LOOK_BACK_PAIRS), shape)
    look_at(first, len(LOOK_BACK), 0, GATHER_PAIRS, shape)
    for norm in (first.query_norm, first.key_norm):
        for pair in range(LOOK_BACK_PAIRS):
            norm.weight[[pair, pair + shape.head_width // 2]] = LOOK_BACK_GAIN
    for block in network.blocks[1:]:
        block.value.weight.copy_(orthogonal(shape.width, shape.width))
        block.output.weight.copy_(PASS_SHARE * block.value.weight.T)
    before, gathered = added[0], added[len(LOOK_BACK)]
    match(second, 0, [(gathered, gathered)], shape)
    match(second, 1, [(gathered, gathered)], shape)
    match(second, 2, [(seen, before)], shape)
    match(second, 3, [(seen, before), (before, added[1])], shape)


def look_at(block: Block, head: int, distance: int, pairs: Iterable[int], shape: Shape) -> None:
    """Makes a head look so many tokens back, the sharper the faster the pairs turn."""
    start, half = rows_of(head, shape).start, shape.head_width // 2
    for layer in (block.query, block.key):
        layer.weight[rows_of(head, shape)] = 0
    for pair in pairs:
        angle = distance * shape.rope_base ** (-2 * pair / shape.head_width)
        block.query.weight[start + pair, 0] = 1
        block.key.weight[start + pair, 0] = math.cos(angle)
        block.key.weight[start + half + pair, 0] = math.sin(angle)


def match(block: Block, head: int, parts: Sequence[tuple[Tensor, Tensor]], shape: Shape) -> None:
    """Makes a head look where the second of each pair of parts is like the first one here."""
    half = shape.head_width // 2
    content = [*range(CONTENT_FROM, half), *range(half + CONTENT_FROM, shape.head_width)]
    mixes = [orthogonal(len(content) // len(parts), shape.head_width) for _ in parts]
    rows = [rows_of(head, shape).start + row for row in content]
    for layer, norm, side in ((block.query, block.query_norm, 0), (block.key, block.key_norm, 1)):
        layer.weight[rows_of(head, shape)] = 0
        layer.weight[rows] = torch.cat([mix @ part[side] for mix, part in zip(mixes, parts, strict=True)])
        norm.weight[content] = CONTENT_GAIN


def rows_of(head: int, shape: Shape) -> slice:
    return slice(head * shape.head_width, (head + 1) * shape.head_width)


def orthogonal(rows: int, columns: int) -> Tensor:
    """Random rows of length one that are at right angles to each other; there are at most as many as columns."""
    return torch.linalg.qr(torch.randn(columns, rows))[0].T


def beside_first(matrix: Tensor) -> Tensor:
    """The same for states whose first column, which is alike for all tokens, is left out."""
    return functional.pad(matrix, (1, 0))


def attend_in_chunks(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Attention in parts, none of which computes keys behind its last query: nearly half of the work less.

    Written out, because compiled so it takes half of the time of PyTorch's own on a CPU (26 ms instead of 57 a layer).
    """
    parts = []
    for start in range(0, query.shape[2], CHUNK):
        end = min(start + CHUNK, query.shape[2])
        scores = query[:, :, start:end] @ key[:, :, :end].transpose(-1, -2) * query.shape[-1] ** -0.5
        shares = functional.softmax((scores + mask[:, :, start:end, :end]).float(), dim=-1)
        parts.append(shares.to(value.dtype) @ value[:, :, :end])
    return torch.cat(parts, dim=2)


def visible(segments: Tensor, parents: Tensor) -> Tensor:
    """(rows, length, length): true where a token may look at an earlier one of its talk, of what its talk shares with
    others (its parent), or of the system prompt."""
    queries, keys = segments[:, :, None], segments[:, None, :]
    length = segments.shape[1]
    before = torch.ones(length, length, dtype=torch.bool, device=segments.device).tril()
    alone = torch.eye(length, dtype=torch.bool, device=segments.device)
    seen = (queries == keys) | (parents[:, :, None] == keys) | (keys == 0)
    return before & seen & (queries >= 0) | alone


def wanted_type(states: Tensor) -> torch.dtype:
    """The type attention computes in here: a mask of another one would be converted in every layer."""
    kind = states.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else states.dtype


def matrix(columns: int, rows: int, gain: float = 1.0) -> nn.Linear:
    """A linear layer without bias whose outputs have about the size of its inputs, times `gain`."""
    layer = nn.Linear(columns, rows, bias=False)
    nn.init.normal_(layer.weight, std=gain * columns**-0.5)
    return layer


def rotation_of(positions: Tensor, shape: Shape) -> tuple[Tensor, Tensor]:
    """Cosines and sines (rows, 1, length, head width / 2) of the rotary embedding at these positions."""
    half = torch.arange(0, shape.head_width, 2, dtype=torch.float32, device=positions.device) / shape.head_width
    angles = positions[:, None, :, None].float() * shape.rope_base**-half
    return angles.cos(), angles.sin()


def rotate(vectors: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Turns the first half of each vector against the second, which is what llama.cpp does for `qwen3`."""
    cosine, sine = (part.to(vectors.dtype) for part in rotation)
    first, second = vectors.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, first * sine + second * cosine), dim=-1)
