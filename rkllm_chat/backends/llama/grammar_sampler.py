"""Constrain llama.cpp to a grammar while a call is generated, and only then.

llama.cpp has grammars with a trigger too, but they end with the first call of a reply, search the whole reply again
for every token, and end the process when the token that completes the trigger continues with something else. So the
text is watched here, and a token is given to a grammar only after testing it (0.3.36, from its source: accepting a
token that does not fit throws through C).
"""

from __future__ import annotations

import ctypes
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...calls.grammar import CallGrammar
from ...calls.grammar.gbnf import literal
from ...calls.grammar.trigger import MarkerDetector, find_open_thought
from ...config.settings import Generation

_FIRST_TESTED = 128
"""Number of most likely tokens that are tested first."""
_ROOT = "call"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a model.

    Attributes:
        candidates: llama.cpp's array of all tokens (numpy).
        is_control: Which tokens are control tokens (numpy, one boolean a token).
        control_names: How those are written.
        end_tokens: The tokens that end a reply.
    """

    candidates: Any
    is_control: Any
    control_names: Mapping[int, str]
    end_tokens: Sequence[int]


def read_vocabulary(engine: Any) -> Vocabulary:
    """Read the tokens of a model; takes 0.1 s for 150,000 tokens."""
    import llama_cpp
    import numpy

    size, vocabulary_handle = engine.n_vocab(), llama_cpp.llama_model_get_vocab(engine.model)
    candidates = numpy.zeros(size, dtype=[("id", numpy.int32), ("logit", numpy.float32), ("p", numpy.float32)])
    candidates["id"] = numpy.arange(size)
    ends = [token for token in range(size) if llama_cpp.llama_vocab_is_eog(vocabulary_handle, token)]
    is_control = numpy.array(
        [llama_cpp.llama_vocab_is_control(vocabulary_handle, token) for token in range(size)], dtype=bool
    )
    tokens = numpy.flatnonzero(is_control).tolist()
    names = {token: engine.detokenize([token], special=True).decode(errors="replace") for token in tokens}
    return Vocabulary(candidates, is_control, names, ends)


class CallConstraint:
    """Restricts which tokens a reply may continue with: `add_token` records each token, `mask_logits` filters the next.

    Inside a call the most likely tokens are tested first, and all of them only if sampling could tell the difference:
    0.01 ms instead of 8 to 20 ms in a vocabulary of 150,000 (measured).
    """

    def __init__(
        self,
        engine: Any,
        vocabulary: Callable[[], Vocabulary],
        grammar: CallGrammar,
        generation: Generation,
        temperature: float,
        reply_prefix: str = "",
        opened: str = "",
    ) -> None:
        """Watch a new reply.

        Args:
            engine: The engine.
            vocabulary: Returns the tokens of the model; called only inside calls.
            grammar: The grammar of calls.
            generation: Sampling parameters.
            temperature: The temperature in effect.
            reply_prefix: The beginning of the reply that the prompt already contains.
            opened: The marker of a call with which the prompt ends; "" if it does not.
        """
        self._engine = engine
        self._vocabulary = vocabulary
        self._grammar = grammar
        self._generation = generation
        self._is_greedy = temperature == 0
        self._rules = dict(grammar.rules)
        self._sampler: Any = None
        self._is_unwritten: Any = None
        thought_end = find_open_thought(reply_prefix)
        if grammar.opening and thought_end:
            self._rules[thought_end] = grammar.opening
        self._watch = MarkerDetector(*self._rules)
        self._watch.feed(reply_prefix)
        if opened:
            self._open(self._rules[opened])
        elif grammar.opening and not thought_end:
            self._open(grammar.opening)

    def add_token(self, token: int, text: str) -> None:
        """Record a generated token and its text, which may begin or end a call."""
        if self._sampler is None:
            marker = self._watch.feed(text)
            if marker:
                self._open(f"{suffix_rule(marker)} {self._rules[marker]}", token)
        elif self._accept(token) and not self._grammar.is_whole_reply and self._is_complete():
            self.close()

    def close(self) -> None:
        """End the constraint until the next call."""
        if self._sampler is not None:
            import llama_cpp

            llama_cpp.llama_sampler_free(self._sampler)
            self._sampler = None

    def mask_logits(self, _tokens: Any, logits: Any) -> Any:
        """Return the logits with forbidden tokens at minus infinity. llama.cpp calls it through C."""
        if self._sampler is None:
            return logits
        try:
            return self._mask(logits)
        except Exception:  # in C it would be lost, after being printed to the terminal
            log.exception("A call continues unconstrained.")
            self.close()
            return logits

    def _open(self, body: str, token: int | None = None) -> None:
        """Start a grammar.

        Args:
            body: What may be written.
            token: The token that completed the marker, whose text may contain the beginning of the call.
        """
        import llama_cpp

        vocabulary_handle = llama_cpp.llama_model_get_vocab(self._engine.model)
        source = f"{self._grammar.gbnf}\n{_ROOT} ::= {body}\n"
        self._sampler = llama_cpp.llama_sampler_init_grammar(vocabulary_handle, source.encode(), _ROOT.encode())
        if not self._sampler:
            self._sampler = None
            log.debug("llama.cpp cannot read the grammar; the call continues unconstrained.")
        elif token is not None:
            self._accept(token)

    def _accept(self, token: int) -> bool:
        """Advance the grammar by a token; if the token does not fit, end the constraint and return False."""
        import llama_cpp

        if self._find_permitted([token])[0]:
            llama_cpp.llama_sampler_accept(self._sampler, token)
            return True
        log.debug("The marker of a call ends within a token (%d); the call continues unconstrained.", token)
        self.close()
        return False

    def _is_complete(self) -> bool:
        """Return whether the call is complete: only then does the grammar allow the end of the reply."""
        ends = self._vocabulary().end_tokens
        return not ends or bool(self._find_permitted([ends[0]], True)[0])

    def _mask(self, logits: Any) -> Any:
        import numpy

        masked = numpy.full(len(logits), -numpy.inf, dtype=numpy.float32)
        if len(logits) > _FIRST_TESTED:
            nearest = numpy.argpartition(logits, -_FIRST_TESTED)[-_FIRST_TESTED:]
            allowed = nearest[self._find_permitted(nearest)]
            if allowed.size and self._is_enough(allowed.size, logits[allowed].max(), logits[nearest].min()):
                masked[allowed] = logits[allowed]
                return self._transfer_logit(masked, logits)
        allowed = numpy.flatnonzero(self._find_permitted(self._vocabulary().candidates["id"]))
        if not allowed.size:
            log.debug("No token fits the grammar; the call continues unconstrained.")
            self.close()
            return logits
        masked[allowed] = logits[allowed]
        return self._transfer_logit(masked, logits)

    def _transfer_logit(self, masked: Any, logits: Any) -> Any:
        """Give the logit of the most likely token, if it is forbidden, to its longest allowed prefix.

        A model that wants to write `"}}` at the end of a text would otherwise continue the text, because it never
        learnt to write the quote alone.
        """
        wanted = int(logits.argmax())
        if masked[wanted] == logits[wanted]:
            return masked
        text: bytes = self._engine.detokenize([wanted])
        for size in range(len(text) - 1, 0, -1):
            tokens = self._engine.tokenize(text[:size], add_bos=False, special=False)
            if len(tokens) == 1 and self._engine.detokenize(tokens) == text[:size] and self._find_permitted(tokens)[0]:
                masked[tokens[0]] = max(masked[tokens[0]], logits[wanted])
                break
        return masked

    def _is_enough(self, number: int, best: float, least: float) -> bool:
        """Return whether sampling drops all tokens below `least` anyway, if `number` of those above are allowed."""
        parameters = self._generation
        if parameters.repeat_penalty != 1:  # changes the order afterwards
            return False
        cut = math.log(parameters.min_p) if parameters.min_p else -math.inf
        return self._is_greedy or 0 < parameters.top_k <= number or least < best + cut

    def _find_permitted(self, tokens: Any, is_end: bool = False) -> Any:
        """Return which tokens may come next, one boolean each.

        Control tokens are no text, whatever their names, unless they are part of the format.
        """
        import llama_cpp

        vocabulary = self._vocabulary()
        if self._is_unwritten is None:
            self._is_unwritten = vocabulary.is_control.copy()
            marks = "\0".join(self._grammar.marks)
            written = [token for token, name in vocabulary.control_names.items() if name and name in marks]
            self._is_unwritten[written] = False
            if self._grammar.is_whole_reply:
                self._is_unwritten[vocabulary.end_tokens] = False
        cells = vocabulary.candidates[tokens]
        data = cells.ctypes.data_as(llama_cpp.llama_token_data_p)
        array = llama_cpp.llama_token_data_array(data, len(cells), -1, False)
        llama_cpp.llama_sampler_apply(self._sampler, ctypes.byref(array))
        return (cells["logit"] == 0) & (is_end | ~self._is_unwritten[tokens])


def suffix_rule(marker: str) -> str:
    """Return an expression for any suffix of a marker: the token that completes it may contain that much of it."""
    return f"({' | '.join(literal(marker[start:]) for start in range(len(marker)))})"
