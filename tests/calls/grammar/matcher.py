"""What llama.cpp makes of a grammar, one byte at a time, with the vocabulary of the model that ships."""

from __future__ import annotations

import ctypes
import string
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import llama_cpp

from rkllm_chat.backends.llama.engine import get_log_callback

ALPHABET = sorted(set((string.printable + '"{}[]:,.-0123456789</>' * 3).encode()))
LONGEST = 20_000


class Matcher:
    """`engine` knows a vocabulary with a token for each byte."""

    def __init__(self, path: Path) -> None:
        llama_cpp.llama_log_set(get_log_callback(), ctypes.c_void_p(0))
        self.engine = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
        pieces = {token: self.engine.detokenize([token]) for token in range(self.engine.n_vocab())}
        self.tokens = {piece[0]: token for token, piece in pieces.items() if len(piece) == 1}
        self.end = self.engine.token_eos()

    @contextmanager
    def reading(self, gbnf: str, rule: str = "root") -> Iterator[Any]:
        vocabulary = llama_cpp.llama_model_get_vocab(self.engine.model)
        sampler = llama_cpp.llama_sampler_init_grammar(vocabulary, gbnf.encode(), rule.encode())
        assert sampler, gbnf
        try:
            yield sampler
        finally:
            llama_cpp.llama_sampler_free(sampler)

    def permitted(self, sampler: Any, tokens: list[int]) -> list[int]:
        """Those of the tokens that may come next."""
        cells = (llama_cpp.llama_token_data * len(tokens))(*((token, 0.0, 0.0) for token in tokens))
        array = llama_cpp.llama_token_data_array(cells, len(tokens), -1, False)
        llama_cpp.llama_sampler_apply(sampler, ctypes.byref(array))
        return [cell.id for cell in cells if cell.logit == 0]

    def read(self, gbnf: str, text: str, rule: str = "root") -> str:
        """So much of a text as the grammar takes, with `$` behind it where it may end there."""
        with self.reading(gbnf, rule) as sampler:
            data = text.encode()
            cell = llama_cpp.llama_token_data()
            array = llama_cpp.llama_token_data_array(ctypes.pointer(cell), 1, -1, False)
            for at, token in enumerate([*(self.tokens[byte] for byte in data), self.end]):
                cell.id, cell.logit = token, 0
                llama_cpp.llama_sampler_apply(sampler, ctypes.byref(array))
                if cell.logit:
                    return data[:at].decode(errors="replace")
                if at < len(data):
                    llama_cpp.llama_sampler_accept(sampler, token)
            return f"{text}$"

    def walk(self, gbnf: str, random: Random, rule: str = "root") -> str:
        """A text that the grammar takes, each byte drawn from those that may come next.

        "" for one without an end, and for one in broken UTF-8, which llama.cpp takes for any character.
        """
        written = bytearray()
        known = {token: byte for byte, token in self.tokens.items()}
        plain = [self.tokens[byte] for byte in ALPHABET]
        with self.reading(gbnf, rule) as sampler:
            while len(written) < LONGEST:
                found = self.permitted(sampler, [*plain, self.end]) or self.permitted(sampler, [*known])
                if self.end in found:
                    text = written.decode(errors="ignore")
                    return text if text.encode() == written else ""
                token = random.choice(found)
                written.append(known[token])
                llama_cpp.llama_sampler_accept(sampler, token)
        return ""
