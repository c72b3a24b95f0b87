"""The network: a Llama-shaped transformer in PyTorch, with attention that follows a given mask.

It knows neither text nor tokens' meaning; `export.py` writes the same tensors as a GGUF for llama.cpp.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

EMBEDDING_SIZE = 0.1
LOOK_BACK, LOOK_BACK_GAIN = (1, 1, 2, 3, 4, 5), 1.3


@dataclass(frozen=True)
class Shape:
    """The sizes of a network, as they are stored beside its weights."""

    vocabulary: int = 1536
    width: int = 192
    layers: int = 6
    heads: int = 6
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
        look_back(self.blocks[0], self.embedding.weight, shape)

    def forward(self, tokens: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """`positions` as tokens; `mask` (rows, length, length) is true where a query may look at a key."""
        rotation = rotation_of(positions, self.shape)
        states = self.embedding(tokens)
        closed = torch.zeros(mask.shape, dtype=wanted_type(states)).masked_fill(~mask, float("-inf")).unsqueeze(1)
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
        query, key = rotate(query, rotation), rotate(key, rotation)
        mixed = attend_in_chunks(query, key, value, mask)
        return self.output(mixed.transpose(1, 2).reshape(rows, length, width))


@torch.no_grad()
def look_back(block: "Block", embedding: Tensor, shape: Shape) -> None:
    """Starts the first heads of the first block as heads that look one to five tokens back.

    Copying takes two steps, "what stood before each token" and "where did what stands before me stand"; learned
    together from nothing they cost millions of tokens, and the first step is known. The first embedding column is
    the same for all tokens; the chosen heads turn it into a query and a key that match at their distance.
    """
    embedding[:, 0] = 6 * EMBEDDING_SIZE
    block.value.weight[:, 0] = 0
    for head, distance in enumerate(LOOK_BACK):
        rows = slice(head * shape.head_width, (head + 1) * shape.head_width)
        for layer in (block.query, block.key):
            layer.weight[rows] = 0
        for pair in range(4):  # slower pairs would only add noise
            row, angle = rows.start + 2 * pair, distance * shape.rope_base ** (-2 * pair / shape.head_width)
            block.query.weight[row, 0] = LOOK_BACK_GAIN
            block.key.weight[row, 0] = LOOK_BACK_GAIN * math.cos(angle)
            block.key.weight[row + 1, 0] = LOOK_BACK_GAIN * math.sin(angle)
        nn.init.normal_(block.output.weight[:, rows], std=0.3 * shape.width**-0.5)


def attend_in_chunks(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Attention in up to four parts, none of which computes keys behind its last query: a third of the work less."""
    size = -(-query.shape[2] // 4)
    parts = []
    for start in range(0, query.shape[2], size):
        end = min(start + size, query.shape[2])
        seen = mask[:, :, start:end, :end]
        keys, values = key[:, :, :end], value[:, :, :end]
        parts.append(functional.scaled_dot_product_attention(query[:, :, start:end], keys, values, attn_mask=seen))
    return torch.cat(parts, dim=2)


def wanted_type(states: Tensor) -> torch.dtype:
    """The type attention computes in here: a mask of another one would be converted in every layer."""
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else states.dtype


def matrix(columns: int, rows: int, gain: float = 1.0) -> nn.Linear:
    """A linear layer without bias whose outputs have about the size of its inputs, times `gain`."""
    layer = nn.Linear(columns, rows, bias=False)
    nn.init.normal_(layer.weight, std=gain * columns**-0.5)
    return layer


def rotation_of(positions: Tensor, shape: Shape) -> tuple[Tensor, Tensor]:
    """Cosines and sines (rows, 1, length, head width / 2) of the rotary embedding at these positions."""
    half = torch.arange(0, shape.head_width, 2, dtype=torch.float32) / shape.head_width
    angles = positions[:, None, :, None].float() * shape.rope_base**-half
    return angles.cos(), angles.sin()


def rotate(vectors: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Turns neighbouring pairs, which is what llama.cpp does for the architecture `llama`."""
    cosine, sine = (part.to(vectors.dtype) for part in rotation)
    even, odd = vectors[..., 0::2], vectors[..., 1::2]
    return torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), dim=-1).flatten(-2)
