"""The calls of a turn that are made because the model prefers them to words, and those that are not.

See `call_choice`: an engine that tells how probable a token is says what a message asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..calls.described_calls import asks, asks_again, drop_told, find_takers, is_joined, list_places
from ..calls.tool_names import find_tools, shown_name
from ..core.events import ReplyDiscarded
from ..core.messages import Tool, ToolCall
from ..prompt.tool_ranking import CJK_RUN, index_tools, rank_tools
from .argument_values import uses_name
from .asked_calls import AskedCall, find_question, has_called, list_called, list_choosable_tools
from .call_choice import can_choose, compare_letters, describe_call, list_choice_prompts
from .conversation import Conversation
from .event_stream import Emit
from .evidence import REFERENCE, Source, list_names, walk_leaves
from .file_rules import FileRules
from .open_requests import OpenRequests
from .reply_requests import ReplyRequests
from .running_calls import PreparedCall
from .tool_calls import ReplyCalls
from .tool_likelihood import LikelyTools, is_far_likelier, is_said_by_words, list_likely
from .tool_traits import may_write, shares_term
from .value_rules import ValueRules

_CLEAR_PREFERENCE = 0.25
"""Logits by which a model must prefer words to a call that it makes by itself: 26 right ones had -0.21 and more, and
five of eight that were not asked for -0.39 and less (Qwen2.5-Coder-1.5B)."""

_VERY_CLEAR_PREFERENCE = 0.75
"""The same, of a call whose tool the question has a word of."""

_SURE = 0.6
"""Logits by which a model prefers a call from which on its tool is compared with no other: so it was for 36 of 68 right
first calls, and for none of 14 of another tool (Qwen2.5-Coder-1.5B)."""

_MAX_TRIED = 2
"""How many calls of likely tools a model that cannot choose writes until one has its values."""
_MAX_JUDGED = 2
"""Of how many of them it is asked whether it would call one."""


class ChosenCalls:
    """What the model has chosen in one turn.

    Attributes:
        is_unsure: It hardly preferred the last call that it was asked about, or words.
    """

    def __init__(self, chat: Conversation, requests: ReplyRequests, likely_tools: LikelyTools) -> None:
        self._chat, self._requests, self._likely_tools = chat, requests, likely_tools
        self.is_unsure = False
        self._preferences: dict[tuple[str, str], float] = {}  # by call and message
        self._likelier: list[ToolCall] = []  # in the place of the first calls
        self._settled: set[str] = set()  # messages for words
        # messages behind calls, whether each was asked alone, and for which files or addresses
        self._asked: set[tuple[str, bool, tuple[str, ...]]] = set()

    @property
    def are_asked_first(self) -> bool:
        """Whether the first calls of the turn run only if the model does not prefer words."""
        return not has_called(self._chat) and can_choose(self._chat, find_question(self._chat))

    async def find_unchosen(self, prepared: list[PreparedCall], emit: Emit) -> ReplyDiscarded | None:
        """Return why the first calls of a turn are discarded: asked, the model would clearly rather reply in words.

        "And the library?", or "and the elephants", alone asks for nothing that the tools of the turn before do.

        Args:
            prepared: The calls.
            emit: Emits events.
        """
        requests = OpenRequests(self._chat)
        before = requests.find_tools_before() if requests.is_follow_up() else []
        question = find_question(self._chat)
        read = [run for run in prepared if not may_write(run.tool) and (is_joined(question) or asks(question))]
        goes_on = any(run.tool in before for run in prepared)
        goes_on = goes_on or any(self._changes_said(run.tool, run.call, question) for run in read)
        if goes_on or not (prepared and self.are_asked_first):
            return None
        # it is read before it is changed, and for what is asked about it
        files = FileRules(self._chat).list_named_files()
        if any(
            uses_name(run.call.arguments, [file]) for file in files for run in prepared if find_takers(file, [run.tool])
        ):
            return None
        if asks_again(question) and all(requests.was_called_before(run.tool) for run in prepared):
            return None
        for run in prepared:
            name = shown_name(run.tool, self._chat.toolbox.tools)
            # "Who's on call this Sunday?" speaks of `vet_on_call`
            clear = _VERY_CLEAR_PREFERENCE if shares_term(run.tool.name, Source(question)) else _CLEAR_PREFERENCE
            preference = await self._measure_preference(describe_call(name, run.call.arguments), question, emit)
            is_meant = preference > -clear
            if is_meant and preference < _CLEAR_PREFERENCE:
                is_meant = not await self._asks_for_none(run.tool, question, emit)
            if is_meant:
                tools = [run.tool for run in prepared]
                return None if preference > _SURE else await self._find_misplaced(tools, preference, emit)
        return ReplyDiscarded(reason="unspoken", values=prepared[0].tool.name)

    async def _asks_for_none(self, tool: Tool, question: str, emit: Emit) -> bool:
        """Return whether a message is likelier for no tool than for any, and nothing else speaks for the one called.

        "What do those two open ones add up to?" A server that told of what is named may tell more of it.
        """
        if may_write(tool) or is_said_by_words(self._chat, question):
            return False
        tools = [tool, *(other for other in list_choosable_tools(self._chat, question) if other is not tool)]
        ranked = await self._likely_tools.rank(drop_told(question), tools, emit)
        is_none = bool(ranked) and ranked[0][1] <= 0
        return is_none and tool.server not in OpenRequests(self._chat).find_telling_servers(question)

    async def _find_misplaced(self, tools: Sequence[Tool], preference: float, emit: Emit) -> ReplyDiscarded | None:
        """Return why the first calls of a turn are discarded: the model finds another tool far likelier than theirs.

        Args:
            tools: The tools of the calls.
            preference: How much the model prefers one of them to words; it must prefer the other one more.
            emit: Emits events.
        """
        question = find_question(self._chat)
        called = {(tool.server, tool.name) for tool in tools}
        for tool in tools:
            # each part of a question may be for another tool
            parts = OpenRequests(self._chat).list_parts() or [question]
            found = [await self._list_far_likelier(tool, part, emit) for part in parts]
            likelier = found[0] if all(found) else []
            if not likelier or (likelier[0].server, likelier[0].name) in called:
                continue
            call = await self._ask_for_better(AskedCall(likelier[:1]), question, preference, emit)
            if call and ValueRules(self._chat).may_offer(likelier[0], call.arguments, by_question=True, names=()):
                self._likelier = [call]
                return ReplyDiscarded(reason="misplaced", values=tool.name)
        return None

    async def _ask_for_better(self, asked: AskedCall, message: str, preference: float, emit: Emit) -> ToolCall | None:
        """Return the call that the model writes of a likelier tool, if it prefers that more than its own one."""
        if not (call := await self._requests.ask_for_call(asked, emit)):
            return None
        preferred = await self._measure_preference(describe_call(call.name, call.arguments), message, emit)
        if preferred > preference:
            return call
        self.is_unsure = abs(preference) < _CLEAR_PREFERENCE  # of its own one
        return None

    async def list_meant(self, described: Sequence[ToolCall], emit: Emit) -> list[ToolCall]:
        """Return the calls that a first reply describes, without those that the model, asked, would not make.

        Asked about are changes, and calls without arguments: "To find out how long the batter rests, you can use
        `get_load`."
        """
        question, meant = find_question(self._chat), list[ToolCall]()
        for call in described:
            changes = any(map(may_write, find_tools(call.name, self._chat.toolbox.tools)))
            described_call = describe_call(call.name, call.arguments)
            is_in_question = self.are_asked_first and (changes or not call.arguments)
            if not is_in_question or await self._measure_preference(described_call, question, emit) > 0:
                meant.append(call)
        return meant

    def list_likelier(self) -> list[ToolCall]:
        """Return the call of a likelier tool in the place of those that were discarded for it, once."""
        likelier, self._likelier = self._likelier, []
        return likelier

    async def _list_far_likelier(self, tool: Tool, message: str, emit: Emit) -> list[Tool]:
        """Return the tools that the model finds far likelier for a message than one that it calls.

        Where the words of the message mean the tool sooner than any other, it is not asked: so it was for 41 of 80
        right first calls, and for 2 of 15 wrong ones.
        """
        ranked = rank_tools(index_tools(self._chat.toolbox.tools), message, self._chat.tool_usage.counts)
        if may_write(tool) or not tool.server or tool in ranked[:1]:
            return []
        made = {*list_called(self._chat), (tool.server, tool.name)}
        others = [
            other for other in list_choosable_tools(self._chat, message) if (other.server, other.name) not in made
        ]
        likely = await self._likely_tools.rank(drop_told(message), [tool, *others], emit)
        mine = next((score for other, score in likely if other is tool), 0.0)
        return [other for other, score in likely if is_far_likelier(score, mine)]

    async def make(
        self, asked: AskedCall, calls: ReplyCalls, emit: Emit
    ) -> tuple[ToolCall | None, PreparedCall | None]:
        """Return the call that the model writes when it is asked for one, and what runs of it, if it is accepted.

        A part of a question may say alone what is asked, but not of what ("and are there any in stock?", "that day"):
        the tool is called in the conversation, then.
        """
        message = asked.request or find_question(self._chat)
        # a file or an address of the question is read, whatever was thought of another call
        places = tuple(name for name in asked.names if list_places(name))
        way = message, bool(asked.request), places
        is_settled = message in self._settled and not places
        if asked.is_chosen and not asked.is_meant and (is_settled or way in self._asked):
            return None, None
        asked = await self._narrow(asked, message, emit)
        if asked.is_likely and not asked.tools:
            return None, None
        if asked.is_chosen and has_called(self._chat):
            self._asked.add(way)  # once
        if asked.is_likely and not asked.is_chosen:
            return await self._make_likely(asked, calls, emit)
        call = await self._requests.ask_for_call(asked, emit)
        if call and asked.is_joined and not self._names_another(call):
            return None, None  # it is none of what the question joins
        if not call or (asked.is_chosen and not await self._prefers(call, asked, message, emit)):
            return call, None
        tools = find_tools(call.name, self._chat.toolbox.tools) if asked.is_chosen and asked.request else []
        likelier = await self._ask_for_likelier(call, asked, message, emit)
        accepted = await calls.offer([likelier], must_ask=False, by_question=True) if likelier else None
        if accepted or calls.was_declined:
            return likelier, accepted
        refers = bool(tools) and has_called(self._chat) and _refers(asked.request, call)
        accepted = None if refers else await self._offer(call, asked, calls, message, emit)
        if accepted or calls.was_declined or not tools:
            return call, accepted
        again = await self._requests.ask_for_call(AskedCall(tools), emit)
        accepted = await calls.offer([again], must_ask=False, by_question=True) if again else None
        if refers and not (accepted or calls.was_declined):
            accepted = await calls.offer([call], False, asked.by_question, asked.names)
        return call, accepted

    async def _offer(
        self, call: ToolCall, asked: AskedCall, calls: ReplyCalls, message: str, emit: Emit
    ) -> PreparedCall | None:
        """Return what runs of a call, with the only name of the question if one that the model prefers lacks it.

        What goes on with the turn before may say a name in other words: "and back?" is of the way "to_town".
        """
        accepted = await calls.offer([call], False, asked.by_question, asked.names, asked.is_described)
        if accepted or calls.was_declined:
            return accepted
        goes_on = replace(asked, names=(), is_chosen=True)
        may_go_on = not asked.is_chosen and bool(asked.names) and can_choose(self._chat, message)
        if may_go_on and self._goes_on(self._amend(call)) and await self._prefers(call, goes_on, message, emit):
            calls.missing.clear()
            return await calls.offer([call], False, asked.by_question)
        if not asked.is_chosen:
            return None
        for tool in find_tools(call.name, self._chat.toolbox.tools)[:1]:
            filled = ValueRules(self._chat).fill_name(tool, call.arguments, asked.names)
            if filled != call.arguments:
                calls.missing.clear()
                return await calls.offer([replace(call, arguments=filled)], False, by_question=True)
        return None

    async def _make_likely(
        self, asked: AskedCall, calls: ReplyCalls, emit: Emit
    ) -> tuple[ToolCall | None, PreparedCall | None]:
        """Return the call of likely tools that a model writes, and what runs of it; else one of the others."""
        call, left = None, list(asked.tools)
        for _ in range(_MAX_TRIED):
            if not left or not (call := await self._requests.ask_for_call(replace(asked, tools=left), emit)):
                break
            accepted = await calls.offer([call], False, asked.by_question, asked.names)
            if accepted or calls.was_declined:
                return call, accepted
            tried = find_tools(call.name, left)
            left = [tool for tool in left if tool not in tried] if tried else []
        return call, None

    async def _narrow(self, asked: AskedCall, message: str, emit: Emit) -> AskedCall:
        """Return what a model is asked for, of the tool that it prefers or finds likelier where that is to be found."""
        if not asked.is_likely:
            return asked
        ranked = await self._likely_tools.rank(drop_told(message), asked.tools, emit)
        if not (ranked or asked.is_meant):
            return asked
        tools = list_likely(ranked)[: _MAX_JUDGED if asked.is_meant else None]
        if ranked and not tools:
            self._settled.add(message)  # it is likelier of somebody who asks for none of them
        return replace(asked, tools=await self._find_preferred(tools, message, emit) if asked.is_meant else tools)

    async def _ask_for_likelier(self, call: ToolCall, asked: AskedCall, message: str, emit: Emit) -> ToolCall | None:
        """Return a call of the tool that the model finds far likelier than the one that it was made to call, if any."""
        called = find_tools(call.name, asked.tools) if asked.is_chosen and not (asked.is_meant or asked.names) else []
        if not called or (has_called(self._chat) and not asked.request):
            return None
        preference = self._preferences.get((describe_call(call.name, call.arguments), message), 0.0)
        likelier = [] if preference > _SURE else await self._list_far_likelier(called[0], message, emit)
        better = AskedCall(likelier[:1], asked.request)
        return await self._ask_for_better(better, message, preference, emit) if likelier else None

    def _names_another(self, call: ToolCall) -> bool:
        """Return whether a call looks up one more thing of those that the question joins, by the tool of the turn."""
        tools = find_tools(call.name, OpenRequests(self._chat).find_joined_tools())
        return bool(tools) and ValueRules(self._chat).names_another(tools[0], call.arguments)

    async def _find_preferred(self, tools: Sequence[Tool], message: str, emit: Emit) -> list[Tool]:
        """Return the tool that the model would call most for a message, of those that it was not asked about yet."""
        named = {shown_name(tool, self._chat.toolbox.tools): tool for tool in tools}
        judged = {call.split(" (")[0] for call, said in self._preferences if said == message}
        new = {name: tool for name, tool in named.items() if name not in judged}
        preferences = {name: await self._measure_preference(name, message, emit) for name in new}
        best = max(preferences, key=lambda name: preferences[name], default="")
        return [new[best]] if best and preferences[best] > 0 else []

    async def _prefers(self, call: ToolCall, asked: AskedCall, message: str, emit: Emit) -> bool:
        """Return whether the model prefers a call to words for a message, or any call, if this one has its file.

        It need not, quite, where something else speaks for the call: a number of the message in it, the file that the
        message has in words, or the call of the turn before with which it goes on ("and in yen"). That another part of
        the message was looked up does not: of ten such calls eight were right, all preferred, and two wrong, neither
        preferred.
        """
        if asked.names and any(said == message and value > 0 for (_, said), value in self._preferences.items()):
            return True
        call = self._amend(call)
        if self._goes_on_with(call, message):
            return True
        is_rest = asked.request not in ("", find_question(self._chat)) and has_called(self._chat)
        if is_rest and self._names_another(call):
            return True
        numbers = [name for name in list_names(message) if name[0].isdigit()]
        tools, files = find_tools(call.name, self._chat.toolbox.tools), FileRules(self._chat)
        is_of_meant_file = any(files.reads_meant_file(tool, call.arguments) for tool in tools)
        is_supported = uses_name(call.arguments, numbers) or self._goes_on(call) or is_of_meant_file
        is_supported = is_supported and not any(map(may_write, tools))
        preference = await self._measure_preference(describe_call(call.name, call.arguments), message, emit)
        if preference < -_CLEAR_PREFERENCE:
            self._settled.add(message)
        return preference > (-_CLEAR_PREFERENCE if is_supported else 0)

    def _amend(self, call: ToolCall) -> ToolCall:
        """Return a call as it would run: "And on Tuesday?" is not asked of Monday again."""
        for tool in find_tools(call.name, self._chat.toolbox.tools)[:1]:
            return replace(call, arguments=ValueRules(self._chat).amend(tool, call.arguments))
        return call

    def _goes_on(self, call: ToolCall) -> bool:
        """Return whether a call is that of the turn before but for one value, and the question goes on with it."""
        requests, tools = OpenRequests(self._chat), self._find_tools_gone_on_with(call)
        return any(len(requests.list_changed(tool, call.arguments)) == 1 for tool in tools)

    def _goes_on_with(self, call: ToolCall, message: str) -> bool:
        """Return whether a message says the only value in which a call is not that of the turn before: "火曜は?"."""
        return any(self._changes_said(tool, call, message) for tool in self._find_tools_gone_on_with(call))

    def _changes_said(self, tool: Tool, call: ToolCall, message: str) -> bool:
        """Return whether a call is that of the turn before but for one value, which a message says: "and the owls"."""
        changed = OpenRequests(self._chat).list_changed(tool, call.arguments)
        value = call.arguments.get(changed[0]) if len(changed) == 1 else None
        is_word = isinstance(value, str | int | float) and not isinstance(value, bool)
        return is_word and Source(message).has(value)

    def _find_tools_gone_on_with(self, call: ToolCall) -> list[Tool]:
        """Return the tool of a call if the turn before has called it, and the question goes on with it."""
        requests = OpenRequests(self._chat)
        return find_tools(call.name, requests.find_tools_before()) if requests.is_follow_up() else []

    async def _measure_preference(self, call: str, message: str, emit: Emit) -> float:
        """Return how much rather the model would make a call than reply to a message in words, in logits."""
        if (call, message) not in self._preferences:
            preference = 0.0
            # "I live in Hamburg. How are you?" asks for nothing of Hamburg
            for prompt, sign in zip(list_choice_prompts(self._chat, call, drop_told(message)), (1, -1), strict=True):
                preference += sign * compare_letters(await self._requests.score_first_token(prompt, emit))
            self._preferences[call, message] = preference
        self.is_unsure = abs(self._preferences[call, message]) < _CLEAR_PREFERENCE
        return self._preferences[call, message]


def _refers(part: str, call: ToolCall) -> bool:
    """Return whether a part of a question refers to another one, also as Japanese and Chinese do, by leaving it out.

    "今空いてる?" has nothing of a car park that a call made of it alone has.
    """
    is_left_out = CJK_RUN.search(part) and not any(map(Source(part).has_part, walk_leaves(call.arguments)))
    return bool(is_left_out) or REFERENCE.search(part) is not None
