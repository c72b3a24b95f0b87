"""The tokenizer: byte-level BPE whose pieces never join a value to what stands around it.

It knows nothing of tools. Blanks, digits, most marks and letters beyond ASCII stay alone, so that a value has the
same pieces wherever it stands; llama.cpp with the pre-tokenizer `gpt-2` gives exactly the same pieces.
"""

import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from rkllm_chat.prompt.pieces import Piece

START, END, PAD = "<|im_start|>", "<|im_end|>", "<|pad|>"
CONTROLS = [PAD, START, END]
VOCABULARY = 2048
# Letters together, JSON's own marks together, everything else one by one; and `'re` behind a word, as GPT-2 cuts it.
SPLIT = r"""(?<![^\p{L}\p{N}\n])'(?:s|t|re|ve|m|ll|d)|[A-Za-z]+|["{}:,]+|[^A-Za-z"{}:,]"""


def train_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """Learns all pieces, controls and all 256 bytes among them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=CONTROLS, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def pre_tokenizer() -> pre_tokenizers.PreTokenizer:
    split = pre_tokenizers.Split(Regex(SPLIT), "isolated")
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])


class Encoder:
    """Turns prompt pieces into tokens and back; control tokens are read in special pieces alone."""

    def __init__(self, path: Path) -> None:
        self.tokenizer = Tokenizer.from_file(str(path))
        self.controls = {text: self.tokenizer.token_to_id(text) for text in CONTROLS}
        self.assistant = self.plain("assistant\n")

    def plain(self, text: str) -> list[int]:
        """Text without control tokens: `encode_special_tokens` makes them ordinary characters."""
        self.tokenizer.encode_special_tokens = True
        return self.tokenizer.encode(text).ids

    def encode(self, pieces: Sequence[Piece]) -> list[int]:
        tokens: list[int] = []
        for piece in pieces:
            parts = re.split(f"({'|'.join(map(re.escape, CONTROLS))})", piece.text) if piece.special else [piece.text]
            for part in parts:
                tokens += [self.controls[part]] if piece.special and part in self.controls else self.plain(part)
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of the tokens; control tokens have none."""
        plain = (token for token in tokens if token not in self.controls.values())
        return decode_bytes("".join(self.tokenizer.id_to_token(token) for token in plain))

    def replies(self, tokens: Sequence[int]) -> list[tuple[int, int]]:
        """Where each reply of the assistant begins and ends, its closing control token included."""
        opening, end = [self.controls[START], *self.assistant], self.controls[END]
        found = []
        for index, token in enumerate(tokens):
            start = index + len(opening)
            if token == opening[0] and list(tokens[index:start]) == opening and end in tokens[start:]:
                found.append((start, tokens.index(end, start) + 1))
        return found

    def system_length(self, tokens: Sequence[int]) -> int:
        """The length of the system message with its closing token and the line break behind it."""
        return tokens.index(self.controls[END]) + 2


def decode_bytes(text: str) -> str:
    """Byte-level letters back to text; what is not whole UTF-8 is shown as a replacement character."""
    table = {letter: byte for byte, letter in byte_letters().items()}
    return bytes(table[letter] for letter in text if letter in table).decode("utf-8", errors="replace")


@cache
def byte_letters() -> dict[int, str]:
    """Byte -> the printable letter that stands for it, as in GPT-2."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + index) for index, byte in enumerate(others)}


def merges_of(path: Path) -> tuple[list[str], list[str]]:
    """All pieces in the order of their numbers, and the merges in the order of their rank, as a GGUF keeps them."""
    model = json.loads(path.read_text(encoding="utf-8"))["model"]
    pieces = sorted(model["vocab"], key=model["vocab"].__getitem__)
    return pieces, [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
