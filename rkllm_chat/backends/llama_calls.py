"""Holds llama.cpp to a grammar while a call is being written, and to nothing before and after.

llama.cpp has grammars that wait for a trigger, too: they end with the first call of a reply, search the whole reply
again for every token, and end the process when the token that brings the trigger goes on with something else. So the
text is watched here, and a token is given to a grammar only after it was asked about that token (0.3.36, read in its
source: accepting one that does not fit throws through C).
"""

from __future__ import annotations

import ctypes
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..config import Generation
from ..grammar import CallGrammar
from ..grammar.rules import literal
from ..grammar.watch import MarkerWatch

NEAREST = 128
ROOT = "call"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Vocabulary:
    """What a call may be made of: `candidates`, llama.cpp's array of all tokens; `unwritten`, which of them are no text
    (numpy, one boolean a token); `end`, a token that ends a reply, -1 where there is none."""

    candidates: Any
    unwritten: Any
    end: int


def read_vocabulary(engine: Any) -> Vocabulary:
    """Takes 0.1 s for 150,000 tokens."""
    import llama_cpp
    import numpy

    size, known = engine.n_vocab(), llama_cpp.llama_model_get_vocab(engine.model)
    candidates = numpy.zeros(size, dtype=[("id", numpy.int32), ("logit", numpy.float32), ("p", numpy.float32)])
    candidates["id"] = numpy.arange(size)
    ends = [token for token in range(size) if llama_cpp.llama_vocab_is_eog(known, token)]
    unwritten = numpy.array([llama_cpp.llama_vocab_is_control(known, token) for token in range(size)], dtype=bool)
    return Vocabulary(candidates, unwritten, ends[0] if ends else -1)


class CallGuard:
    """Which tokens a reply may go on with. `note` is told of each that was written; `mask` asked about the next.

    In a call the likeliest tokens are tried first, all of them only where sampling could tell the difference: 0.01 ms
    against 8 to 20 ms in a vocabulary of 150,000 (measured). `thought` is what the prompt has opened of the reply.
    """

    def __init__(
        self,
        engine: Any,
        vocabulary: Callable[[], Vocabulary],
        grammar: CallGrammar,
        generation: Generation,
        temperature: float,
        thought: str = "",
    ) -> None:
        self._engine = engine
        self._vocabulary = vocabulary
        self._grammar = grammar
        self._generation = generation
        self._is_greedy = temperature == 0
        self._watch = MarkerWatch(grammar.trigger, thought)
        self._sampler: Any = None

    def note(self, token: int, text: str) -> None:
        """A token has been written, and this text with it: a call may have begun or ended."""
        if self._sampler is None:
            if self._watch.feed(text):
                self._open(token)
        elif self._accept(token) and self._is_whole():
            self.close()

    def close(self) -> None:
        """From here on everything may be written, until the next call."""
        if self._sampler is not None:
            import llama_cpp

            llama_cpp.llama_sampler_free(self._sampler)
            self._sampler = None

    def mask(self, _tokens: Any, logits: Any) -> Any:
        """The logits, those of tokens that cannot be written at minus infinity. llama.cpp calls it through C."""
        if self._sampler is None:
            return logits
        try:
            return self._masked(logits)
        except Exception:  # it would be lost in C, and printed to the terminal
            log.exception("A call goes on unconstrained.")
            self.close()
            return logits

    def _open(self, token: int) -> None:
        """Begins a grammar with the token that brought the end of the marker."""
        import llama_cpp

        known = llama_cpp.llama_model_get_vocab(self._engine.model)
        source = f"{self._grammar.gbnf}\n{ROOT} ::= {begun(self._grammar.trigger)} root\n"
        self._sampler = llama_cpp.llama_sampler_init_grammar(known, source.encode(), ROOT.encode())
        if not self._sampler:
            self._sampler = None
            log.debug("llama.cpp cannot read the grammar; the call goes unconstrained.")
        else:
            self._accept(token)

    def _accept(self, token: int) -> bool:
        """Goes on with a token; False, and unconstrained, where it does not fit."""
        import llama_cpp

        if self._permitted([token])[0]:
            llama_cpp.llama_sampler_accept(self._sampler, token)
            return True
        log.debug("The marker of a call goes on in the same token (%d); the call goes unconstrained.", token)
        self.close()
        return False

    def _is_whole(self) -> bool:
        """Whether the call has ended: only then the grammar lets the reply end."""
        end = self._vocabulary().end
        return end < 0 or bool(self._permitted([end], True)[0])

    def _masked(self, logits: Any) -> Any:
        import numpy

        masked = numpy.full(len(logits), -numpy.inf, dtype=numpy.float32)
        if len(logits) > NEAREST:
            nearest = numpy.argpartition(logits, -NEAREST)[-NEAREST:]
            found = nearest[self._permitted(nearest)]
            if found.size and self._is_enough(found.size, logits[found].max(), logits[nearest].min()):
                masked[found] = logits[found]
                return self._handed_over(masked, logits)
        found = numpy.flatnonzero(self._permitted(self._vocabulary().candidates["id"]))
        if not found.size:
            log.debug("No token fits the grammar; the call goes unconstrained.")
            self.close()
            return logits
        masked[found] = logits[found]
        return self._handed_over(masked, logits)

    def _handed_over(self, masked: Any, logits: Any) -> Any:
        """Gives what the likeliest token had, where it does not fit, to the beginning of it that does.

        A model that wants to write `"}}` at the end of a text would else go on with the text, because it never learnt
        to write the quote alone.
        """
        wanted = int(logits.argmax())
        if masked[wanted] == logits[wanted]:
            return masked
        text: bytes = self._engine.detokenize([wanted])
        for size in range(len(text) - 1, 0, -1):
            tokens = self._engine.tokenize(text[:size], add_bos=False, special=False)
            if len(tokens) == 1 and self._engine.detokenize(tokens) == text[:size] and self._permitted(tokens)[0]:
                masked[tokens[0]] = max(masked[tokens[0]], logits[wanted])
                break
        return masked

    def _is_enough(self, number: int, best: float, least: float) -> bool:
        """Whether sampling would drop all tokens below `least` anyway, when `number` of those above can be written."""
        wanted = self._generation
        if wanted.repeat_penalty != 1:  # changes the order afterwards
            return False
        cut = math.log(wanted.min_p) if wanted.min_p else -math.inf
        return self._is_greedy or 0 < wanted.top_k <= number or least < best + cut

    def _permitted(self, tokens: Any, is_end: bool = False) -> Any:
        """Which tokens may come next; one boolean each. Control tokens are no text, whatever their names are."""
        import llama_cpp

        vocabulary = self._vocabulary()
        cells = vocabulary.candidates[tokens]
        data = cells.ctypes.data_as(llama_cpp.llama_token_data_p)
        array = llama_cpp.llama_token_data_array(data, len(cells), -1, False)
        llama_cpp.llama_sampler_apply(self._sampler, ctypes.byref(array))
        return (cells["logit"] == 0) & (is_end | ~vocabulary.unwritten[tokens])


def begun(marker: str) -> str:
    """Any end of a marker: so much of it may stand in the token that completes it."""
    return f"({' | '.join(literal(marker[start:]) for start in range(len(marker)))})"
