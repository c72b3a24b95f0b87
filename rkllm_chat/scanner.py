"""Finds thoughts and tool calls in a model's text while it is being written. It runs nothing.

A state machine over a Reader: text, thought, fence, quote, or a candidate call that its format accepts or turns down.
Events are the same for every chunking (neighbouring Texts joined), and only what may be the beginning of a marker is
held back. A reply that ends inside a call gives CallGarbled("truncated"): it is never completed and never run. What
stands behind a call in the place of its result is told of as Invented, to the end of the reply.

Wanted: every character looked at a bounded number of times, in whatever pieces. Way: while nothing has begun, a piece
without the first character of any marker is passed on as it is; while a body is read, the reader says which character
it waits for, and pieces without it are put by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial

from .events import CallFound, CallGarbled, Text, Thought
from .formats import CONTROLS, TURNS, Format, Found, formats_for
from .formats.bare import Bare, read_bare_json, read_bare_python
from .formats.found import FENCE, NO_END, garbled, repaired
from .formats.jsons import Read
from .markers import Markers, edge_of, markers_of
from .reader import Edge, EndOfTextError, Reader, Reading, TooLongError

THINK = {"<think>": "</think>"}
FENCES = ("```", "~~~")
QUOTED_LINE = "> "
LAST = ("</s>", "<eos>")
LINE_END = edge_of("\n")
LONGEST_RUN = 32
"""Of the marks of a fence, and of the blanks before it."""
LONGEST_THOUGHT = 65536
"""How much of a thought is searched for a call that was meant, in characters."""

TOKENS = ("<|", "<｜", "✿")
"""How marks begin that no prose holds: they begin a result wherever they stand."""


@dataclass(frozen=True)
class Invented:
    """What a model wrote behind a call as if it were the result, and all that follows."""

    text: str


Seen = Text | Thought | CallFound | CallGarbled | Invented


def knows_none(_name: str) -> bool:
    return False


def heads_none(_name: str) -> tuple[str, ...]:
    return ()


class Scanner:
    """Feed it a reply piece by piece; each call gives the events that are certain by now.

    `formats` is what the model may write; calls without a marker count only where `is_known` says that a tool has that
    name. `starts_in_thought`: the prompt has opened a thought already. `headings`: a call's name -> what our prompts
    write above its result. `kept`: so many characters of the reply stand up to its last call or word, and before what
    was Invented.
    """

    def __init__(
        self,
        formats: Iterable[Format] = formats_for(),
        is_known: Callable[[str], bool] = knows_none,
        starts_in_thought: bool = False,
        headings: Callable[[str], tuple[str, ...]] = heads_none,
    ) -> None:
        self._formats = tuple(formats)
        self._is_known = is_known
        self._headings = headings
        self._lexicon = lexicon_of(self._formats)
        self._markers = self._lexicon.markers
        self._results: tuple[str, ...] = ()  # what begins one; nothing does before a call
        self._beginning: frozenset[str] = frozenset()  # the marks that begin with one of these
        self._reader = Reader()
        self._seen: list[Seen] = []
        self._thoughts: list[str] = []
        self._calls = 0
        self._is_fresh = True  # nothing but white space since the reply began or a call ended
        self._has_spoken = False
        self._indent: str | None = ""  # the line so far while it is blank
        self._flow: tuple[type[Text] | type[Thought], Edge] | None = None
        self._edge: Edge | None = None
        self._fed = self.kept = 0
        self._scan = self._read_reply(starts_in_thought)

    def feed(self, text: str) -> list[Seen]:
        """What has become certain with this piece."""
        self._fed += len(text)
        flow = self._flow
        if flow:
            if not flow[1].search(text):
                self.kept = self._fed
                if flow[0] is Thought:
                    self._thoughts.append(text)
                return [flow[0](text)] if text else []
        elif self._edge and not self._edge.search(text) and self._reader.put_by(text):
            return []
        self._reader.feed(text)
        return self._advance()

    def close(self) -> list[Seen]:
        """What is left when the reply has ended."""
        self._reader.end()
        return self._advance()

    def _advance(self) -> list[Seen]:
        self._flow = None
        self._edge = next(self._scan, None)
        seen, self._seen = self._seen, []
        return seen

    def _read_reply(self, starts_in_thought: bool) -> Reading[None]:
        lexicon, marker = self._lexicon, "-"
        if starts_in_thought:
            again = yield from self._reader.next_of(tuple(lexicon.thoughts))
            self._reader.take(len(again))
            yield from self._read_thought(tuple(lexicon.thoughts.values()))
        while marker:
            if self._is_fresh and (yield from self._read_beginning()):
                continue
            marker = yield from self._pass_on(Text, self._markers)
            if self._begins_result(marker):
                return (yield from self._read_invented(marker))
            yield from self._read_behind(self._shorten(marker))
        self._find_call_in_thought()

    def _read_behind(self, mark: str) -> Reading[None]:
        """What a mark begins, which was read already."""
        lexicon = self._lexicon
        if mark in lexicon.thoughts:
            yield from self._read_thought((lexicon.thoughts[mark],))
        elif mark in lexicon.openers:
            if not (yield from self._try(mark, lexicon.openers[mark])):
                self._say(Text, mark)
        elif mark in lexicon.controls:
            yield from self._drop(mark)
        elif mark:
            yield from self._read_quote(mark)

    def _read_beginning(self) -> Reading[bool]:
        """What may stand only where a reply begins or behind a call: a call without a marker, a spare end marker."""
        reader, lexicon = self._reader, self._lexicon
        if reader.text.startswith(lexicon.ordered_openers, reader.at):
            return False
        self._say(Text, (yield from reader.skip_space()))
        spare = yield from reader.next_of(lexicon.closers if self._calls else ())
        if spare:
            reader.take(len(spare))
            self._keep()
            return True
        if (yield from reader.next_of(self._results)) or (yield from reader.next_of(lexicon.ordered_openers)):
            return False
        for read in lexicon.bare:
            if (yield from self._try("", self._bare(read))):
                return True
        fence = yield from reader.next_of(FENCES)
        if fence:
            return (yield from self._try("", partial(self._read_fenced, fence)))
        return False

    def _bare(self, read: Bare) -> Read:
        return lambda reader: read(reader, self._is_known)

    def _try(self, opener: str, read: Read) -> Reading[bool]:
        """Reads a candidate from behind its opener; False where it is none, and then its text is still to be read."""
        reader = self._reader
        reader.record()
        found: Found = None
        is_too_long = False
        try:
            found = yield from read(reader)
        except EndOfTextError:
            if reader.is_committed:
                reader.take_to(len(reader.text))
                found = garbled("truncated", "The reply ended before the call did.")
        except TooLongError:
            if reader.is_committed:
                found = garbled("too_large", f"The call is longer than {reader.longest} characters.")
                is_too_long = True
        written = reader.stop_recording()
        if found is None:
            reader.unread(written)
            return False
        raw = opener + written
        for one in found:
            whole = CallFound(one.call, raw) if isinstance(one, CallFound) else CallGarbled(one.fault, one.detail, raw)
            self._seen.append(whole)
            raw = ""
        self._calls += len(found)
        self._is_fresh, self._indent = True, None
        self._keep()
        self._expect_results(found)
        if is_too_long:
            yield from self._discard()
        return True

    def _expect_results(self, found: Sequence[CallFound | CallGarbled]) -> None:
        """From here on a result of these calls would be invented."""
        known = self._results or (self._lexicon.results if found else ())
        named = (one.call.name for one in found if isinstance(one, CallFound))
        new = [heading for name in named for heading in self._headings(name) if heading not in known]
        if new or known is not self._results:
            self._results = tuple(dict.fromkeys((*known, *new)))
            self._markers = markers_with(self._lexicon, self._results)
            marks = self._markers.literals
            self._beginning = frozenset(mark for mark in marks if mark.startswith(self._results))

    def _begins_result(self, marker: str) -> bool:
        is_at_line_begin = self._is_fresh or self._indent is not None
        return marker in self._beginning and (is_at_line_begin or marker.startswith(TOKENS))

    def _shorten(self, marker: str) -> str:
        """What else a mark of a result begins where it begins none; "" where it was text."""
        if marker not in self._beginning:
            return marker
        found = self._lexicon.markers.pattern.match(marker)
        shorter = found[0] if found else ""
        if shorter:
            self._reader.unread(marker[len(shorter) :])
        else:
            self._say(Text, marker)
        return shorter

    def _read_invented(self, begun: str) -> Reading[None]:
        """The rest of the reply, whose beginning was read already."""
        try:
            while True:
                self._seen.append(Invented(begun + self._reader.take_to(len(self._reader.text))))
                begun = ""
                yield from self._reader.more()
        except EndOfTextError:
            pass

    def _discard(self) -> Reading[None]:
        """Reads the rest of the reply and drops it: it may be the inside of what was too large."""
        try:
            while True:
                self._reader.take_to(len(self._reader.text))
                yield from self._reader.more()
        except EndOfTextError:
            pass

    def _read_fenced(self, fence: str, reader: Reader) -> Reading[Found]:
        """Calls in a fence that is all there is: any form, or one without a marker."""
        reader.take(len(fence))
        yield from reader.up_to(LINE_END)
        calls: list[CallFound | CallGarbled] = []
        while not (yield from self._skip_to_end_of(fence, reader)):
            found = yield from self._read_any(reader)
            if not found:
                return None
            calls += found
        repairs = (FENCE,) if (yield from reader.skip(fence)) else (FENCE, NO_END)
        yield from reader.skip_space()
        if not (yield from reader.is_at_end()) and not (yield from reader.next_of(self._lexicon.controls)):
            return None
        return [repaired(one, *repairs) for one in calls] or None

    def _skip_to_end_of(self, fence: str, reader: Reader) -> Reading[bool]:
        yield from reader.skip_space()
        return (yield from reader.next_is(fence)) or (yield from reader.is_at_end())

    def _read_any(self, reader: Reader) -> Reading[Found]:
        """A call of whatever form that begins here."""
        opener = yield from reader.next_of(self._lexicon.ordered_openers)
        if opener:
            reader.take(len(opener))
            return (yield from self._lexicon.openers[opener](reader))
        for read in (read_bare_json, read_bare_python):
            size = reader.size
            found = yield from read(reader, self._is_known)
            if found:
                return found
            reader.rewind(size)
        return None

    def _pass_on(self, kind: type[Text] | type[Thought], markers: Markers) -> Reading[str]:
        """Passes text on as events of one kind up to a marker, which is returned; "" at the end of the reply."""
        reader = self._reader
        while True:
            found = markers.find(reader.text, reader.at, reader.ended)
            end = found.start() if found else len(reader.text)
            if not found and not reader.ended:
                end -= markers.count_held(reader.text, reader.at)
            if end > reader.at:
                self._say(kind, reader.take_to(end))
            if found:
                return reader.take_to(found.end())
            if reader.at == len(reader.text) and (kind is Thought or self._indent is None):
                self._flow = kind, markers.edge
            try:
                yield from reader.more()
            except EndOfTextError:
                if reader.at == len(reader.text):
                    return ""

    def _say(self, kind: type[Text] | type[Thought], text: str) -> None:
        if not text:
            return
        self._seen.append(kind(text))
        if text.strip():
            self._keep()
        if kind is Thought:
            self._thoughts.append(text)
            return
        line = text.rpartition("\n")[2]
        before = "" if len(line) < len(text) else self._indent
        self._indent = before + line if before is not None and not line.strip() else None
        if text.strip():
            self._is_fresh, self._has_spoken = False, True

    def _keep(self) -> None:
        self.kept = self._fed - (len(self._reader.text) - self._reader.at)

    def _read_thought(self, closers: tuple[str, ...]) -> Reading[None]:
        yield from self._pass_on(Thought, markers_of(closers))
        self._keep()
        self._is_fresh, self._indent = True, ""

    def _read_quote(self, marker: str) -> Reading[None]:
        """What a reader of Markdown takes for an example: a fence, code in a line, a quoted line."""
        indent = self._indent if len(self._indent or "") < LONGEST_RUN else None
        self._say(Text, marker)
        if indent is not None and marker in FENCES:
            run = marker + (yield from self._more_of(marker[0]))
            yield from self._pass_quoted((f"\n{indent}{run}",))
        elif indent is not None and marker == QUOTED_LINE:
            yield from self._pass_quoted(("\n",))
        elif marker[0] == "`":
            run = marker + (yield from self._more_of("`"))
            yield from self._pass_quoted((run, "\n"))

    def _more_of(self, mark: str) -> Reading[str]:
        run = ""
        while len(run) < LONGEST_RUN and (yield from self._reader.skip(mark)):
            run += mark
        self._say(Text, run)
        return run

    def _pass_quoted(self, ends: tuple[str, ...]) -> Reading[None]:
        end = yield from self._pass_on(Text, markers_of(ends))
        self._say(Text, end)

    def _drop(self, control: str) -> Reading[None]:
        """Drops a control token; `</s>` only at the end of a reply, for it also ends struck-out text."""
        if control not in LAST:
            return
        space = yield from self._reader.skip_space()
        if not (yield from self._reader.is_at_end()):
            self._say(Text, control + space)

    def _find_call_in_thought(self) -> None:
        """Tells of a call that stands in the thinking, where the reply holds nothing else: it may have been meant."""
        if not self._thoughts or self._calls or self._has_spoken:
            return
        inner = Scanner(self._formats, self._is_known)
        seen = inner.feed("".join(self._thoughts)[-LONGEST_THOUGHT:]) + inner.close()
        if any(isinstance(one, CallFound) for one in seen):
            detail = "The call stands in the thinking, where nothing is run."
            self._seen.append(CallGarbled("call_in_thinking", detail, ""))


class Lexicon:
    """The literals of some formats, and what each of them begins."""

    def __init__(self, formats: Sequence[Format]) -> None:
        self.openers: dict[str, Read] = {}
        self.thoughts: dict[str, str] = dict(THINK)
        for form in formats:
            self.openers |= form.openers
            self.thoughts |= form.thoughts
        self.controls = tuple(dict.fromkeys(mark for form in formats for mark in (*CONTROLS, *form.controls)))
        self.closers = tuple(dict.fromkeys(closer for form in formats for closer in form.closers))
        self.results = tuple(dict.fromkeys((*TURNS, *(mark for form in formats for mark in form.results))))
        self.bare = tuple(dict.fromkeys(read for form in formats for read in form.bare))
        self.ordered_openers = tuple(sorted(self.openers, key=len, reverse=True))
        quotes = (*FENCES, "`", QUOTED_LINE)
        self.markers = Markers((*self.openers, *self.thoughts, *self.controls, *quotes), also="\n")


@cache
def lexicon_of(formats: tuple[Format, ...]) -> Lexicon:
    return Lexicon(formats)


@lru_cache(64)
def markers_with(lexicon: Lexicon, results: tuple[str, ...]) -> Markers:
    """The marks of a lexicon and these too."""
    return Markers((*lexicon.markers.literals, *results), also="\n")
