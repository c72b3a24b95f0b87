"""What llguidance makes of a grammar, one byte at a time."""

from __future__ import annotations

import string
from random import Random

import numpy
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

from rkllm_chat.calls.grammar.lark import write_grammar

ALPHABET = sorted(set((string.printable + '"{}[]:,.-0123456789</>' * 3).encode()))
LONGEST = 20_000
END = 256


class _Bytes:
    """A vocabulary with a token for each byte, and one that ends a text."""

    eos_token_id, bos_token_id, special_token_ids = END, None, ()
    tokens = (*(bytes([byte]) for byte in range(END)), b"\xff<end>")

    def __call__(self, text: bytes) -> list[int]:
        return list(text)


class Matcher:
    """Reads and writes texts of a grammar: what an expression stands for, given the rules that it refers to."""

    def __init__(self) -> None:
        self.tokenizer = LLTokenizer(TokenizerWrapper(_Bytes()), slices=[])

    def start(self, rules: str, body: str) -> LLMatcher:
        matcher = LLMatcher(self.tokenizer, write_grammar(rules, body), log_level=0)
        assert not matcher.is_error(), matcher.get_error()
        return matcher

    def read(self, rules: str, text: str, body: str = "call") -> str:
        """So much of a text as the grammar takes, with `$` behind it where it may end there."""
        matcher, data = self.start(rules, body), text.encode()
        length = matcher.try_consume_tokens(list(data))
        if length < len(data):
            return data[:length].decode(errors="replace")
        return f"{text}$" if matcher.is_accepting() else text

    def walk(self, rules: str, random: Random, body: str = "call") -> str:
        """A text that the grammar takes, each byte drawn from those that may come next; "" for one without an end."""
        matcher, written = self.start(rules, body), bytearray()
        plain = {*ALPHABET, END}
        while len(written) < LONGEST:
            bits = numpy.frombuffer(matcher.compute_bitmask(), numpy.uint8)
            found = numpy.flatnonzero(numpy.unpackbits(bits, count=END + 1, bitorder="little")).tolist()
            token = random.choice([text for text in found if text in plain] or found)
            if token == END:
                return written.decode()
            written.append(token)
            assert matcher.consume_token(token), matcher.get_error()
        return ""
