"""Constrain llama.cpp to a grammar while a call is generated, and only then; or keep it from writing a call.

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
from dataclasses import dataclass, replace
from typing import Any

from ...calls.grammar import CallGrammar, NoCalls
from ...calls.grammar.gbnf import literal
from ...calls.grammar.trigger import THOUGHT_MARKS, CallDetector, find_open_thought
from ...config.settings import Generation

_FIRST_TESTED = 128
"""Number of most likely tokens that are tested first."""
_ROOT = "reply"
_MIN_SHARE_OF_NAMES = 1 / 2
"""Least probability of the names of tools behind an opener that may as well begin data, or the name of no tool: so did
half of the replies to questions that no tool fits (Qwen2.5-Coder 0.5B, 60 questions)."""
_MAX_WATCHED_LENGTH = 64
_FIRST_SIGNS = "¿¡"
"""What may begin a reply without calls besides letters and digits."""

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
        self._sampler: Any = None
        self._is_unwritten: Any = None
        self._may_be_data = False
        thought_end = find_open_thought(reply_prefix)
        if grammar.opening and thought_end:
            grammar = replace(grammar, triggers={**grammar.triggers, thought_end: grammar.opening})
        self._rules = {**grammar.unmarked, **grammar.triggers}
        self._watch = CallDetector(grammar)
        self._watch.feed(reply_prefix)
        if opened:
            self._open(self._rules[opened])
        elif grammar.opening and not thought_end:
            self._open(grammar.opening)

    def add_token(self, token: int, text: str) -> None:
        """Record a generated token and its text, which may begin or end a call."""
        if self._sampler is None:
            opener = self._watch.feed(text)
            if opener:
                written = text[: len(text) - len(self._watch.rest)]
                self._may_be_data = opener in self._grammar.unmarked
                self._open(f"{literal(written)} {self._rules[opener]}", token)
        elif self._accept(token) and not self._grammar.is_whole_reply and self._is_complete():
            self.close()
            self._watch.expect_call()

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

        if self._may_be_data:
            self._may_be_data = False
            if not self._is_likely(logits):
                log.debug("The reply continues as data; it is unconstrained.")
                self.close()
                return logits
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

    def _is_likely(self, logits: Any) -> bool:
        """Return whether the model is about to write what the grammar allows: the name of a tool, not other data."""
        import numpy

        nearest = numpy.argpartition(logits, -_FIRST_TESTED)[-_FIRST_TESTED:] if len(logits) > _FIRST_TESTED else ...
        tokens = numpy.arange(len(logits))[nearest]
        weights = numpy.exp(logits[tokens] - logits.max())
        return bool(weights[self._find_permitted(tokens)].sum() >= _MIN_SHARE_OF_NAMES * weights.sum())

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


class CallProhibition:
    """Keeps a reply from containing a call. It has the methods of `CallConstraint`.

    The reply begins with a word or a number, because a model that may not write a marker writes a call without one;
    behind that, no token is chosen that would complete an opener.
    """

    def __init__(self, engine: Any, no_calls: NoCalls, reply_prefix: str = "") -> None:
        """Watch a new reply; `reply_prefix` is its beginning that the prompt already contains."""
        self._engine = engine
        self._openers = no_calls.openers
        self._longest = max(map(len, self._openers), default=1)
        self._written = ""  # the end of the reply, without white space
        self._texts: dict[int, str] = {}
        self._thought_end = find_open_thought(reply_prefix)
        self._has_begun = False

    def add_token(self, _token: int, text: str) -> None:
        """Record the text of a generated token."""
        squeezed = "".join(text.split())
        self._written = (self._written + squeezed)[-_MAX_WATCHED_LENGTH:]
        if self._thought_end:
            if self._thought_end in self._written:
                self._thought_end = self._written = ""
        elif not self._has_begun and self._written:
            self._thought_end = THOUGHT_MARKS.get(self._written, "")
            self._has_begun = not self._thought_end

    def close(self) -> None:
        """End the prohibition."""

    def mask_logits(self, _tokens: Any, logits: Any) -> Any:
        """Return the logits with forbidden tokens at minus infinity. llama.cpp calls it through C."""
        if self._thought_end:
            return logits
        try:
            return self._mask(logits)
        except Exception:  # in C it would be lost, after being printed to the terminal
            log.exception("The reply continues unconstrained.")
            self._thought_end = "\0"
            return logits

    def _mask(self, logits: Any) -> Any:
        import numpy

        size = min(_FIRST_TESTED, len(logits))
        while True:
            nearest = numpy.argpartition(logits, -size)[-size:]
            allowed = [token for token in nearest.tolist() if self._may_follow(token)]
            if allowed or size == len(logits):
                break
            size = min(size * 16, len(logits))
        masked = numpy.full(len(logits), -numpy.inf, dtype=numpy.float32)
        masked[allowed] = logits[allowed]
        return masked if allowed else logits

    def _may_follow(self, token: int) -> bool:
        text = self._text_of(token)
        if not self._has_begun and not self._written:
            return text in THOUGHT_MARKS or (bool(text) and (text[0].isalnum() or text[0] in _FIRST_SIGNS))
        written = self._written[-self._longest :] + text
        return not any(opener in written for opener in self._openers)

    def _text_of(self, token: int) -> str:
        """Return the text of a token without white space; a part of a character beyond ASCII counts as a letter."""
        if token not in self._texts:
            data: bytes = self._engine.detokenize([token], special=True)
            text = data.decode(errors="replace").replace("\ufffd", "\u00e9")
            self._texts[token] = "".join(text.split())
        return self._texts[token]


Constraint = CallConstraint | CallProhibition
