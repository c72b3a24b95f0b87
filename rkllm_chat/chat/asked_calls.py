"""Which calls a model is asked for in the place of a reply that has none, or whose calls are void.

A reply without a call may announce one, refuse what a tool can do, or leave a part of the question out. An engine that
can be held to a grammar is made to call one of the tools; others are asked for one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..calls.described_calls import (
    asks_for_change,
    asks_to_remember,
    asks_what_was_said,
    brings_content,
    drop_told,
    find_lack,
    find_named_tools,
    find_refused_tools,
    is_apology,
    is_file_name,
    is_follow_up,
    is_question,
    is_refusal,
    list_follow_ups,
    list_places,
    needs_look_up,
    takes_other_paths,
    translate_remembering,
    works_out,
)
from ..calls.schema.resolve import properties_of
from ..calls.tool_names import find_by_parameters, find_tools, shown_names
from ..core.messages import Tool, ToolCall
from ..prompt.budget import find_last_turn
from ..prompt.tool_ranking import (
    find_domain_tools,
    find_sure_tools,
    index_tools,
    list_quoted,
    rank_tools,
    split_clauses,
    split_requests,
)
from .argument_values import uses_name
from .call_choice import can_choose, can_compare
from .context import can_force_calls, loses_conversation, request_call
from .conversation import Conversation
from .evidence import Source, list_names, walk_leaves
from .file_rules import FileRules
from .open_requests import OpenRequests, list_table_tools
from .reply_rules import ReplyRules
from .tool_traits import (
    asks_for_change_by,
    asks_for_nothing,
    list_reading,
    makes_text,
    may_be_meant,
    may_write,
    names_verb,
    says_where,
    searches,
    shares_term,
    takes_query,
)
from .value_rules import ValueRules

_MAKING = ("create", "make", "write")
"""How the name of a tool begins for what a model may as well write into its reply."""
_REMEMBERING = "remember a fact in the memory"
"""What somebody wants who asks to keep something in mind, for words that no tool has."""
_MAX_LIKELY = 3
"""How many likely tools a model may be made to call that names none."""


@dataclass(frozen=True)
class AskedCall:
    """A call that a model is asked for, and what it must be to be made.

    Attributes:
        tools: The tools of which it is; any if a request is asked alone.
        request: The part of the question that is asked as if it were the first of the conversation; "" to ask for the
            call behind the conversation.
        by_question: All of its values stand in the question, because the reply does not name the tool.
        names: One of which the call must use; empty for any call.
        is_chosen: The model must prefer the call to a reply in words.
        is_meant: Of the likeliest tools, the one that the model prefers most is called, if it prefers one.
        is_joined: The call must look up another thing of the question than those of the turn.
        is_likely: Only the likeliest of the tools are asked for, where the model tells which ones these are.
        is_described: The reply names the tool.
    """

    tools: Sequence[Tool] = ()
    request: str = ""
    by_question: bool = False
    names: Sequence[str] = ()
    is_chosen: bool = False
    is_meant: bool = False
    is_joined: bool = False
    is_likely: bool = False
    is_described: bool = False


def list_asked_calls(
    chat: Conversation,
    reply: str,
    rejected: Sequence[ToolCall] | None,
    described: Sequence[ToolCall] = (),
) -> Iterator[AskedCall]:
    """Return the calls that the model is asked for, in order, until one is made.

    Tools that take a file are kept only if their server has it. Where nobody can be asked for approval, tools that need
    it are left out, unless no other remains.

    Args:
        chat: The conversation.
        reply: The text of the reply.
        rejected: Its calls, which were void; empty if its text was discarded, None if it stands.
        described: The calls that it describes.
    """
    for asked in _list_asked_calls(chat, reply, rejected, described):
        tools = FileRules(chat).drop_others(asked.tools)
        allowed = [] if chat.can_ask else [*filter(chat.may_run, tools)]
        yield replace(asked, tools=allowed or tools)


def _list_asked_calls(
    chat: Conversation,
    reply: str,
    rejected: Sequence[ToolCall] | None,
    described: Sequence[ToolCall],
) -> Iterator[AskedCall]:
    if corrected := find_corrected_call(chat):
        yield corrected
    if not has_called(chat) and chat.profile.forces_calls:
        for tools in (_find_spelled_tools(chat, rejected or ()), FileRules(chat).find_moving_tools()):
            if tools and _can_ask_for(chat, tools):
                yield AskedCall(tools, by_question=True)
    if (readers := _find_readers(chat)) and _can_ask_for(chat, readers):
        yield AskedCall(readers, by_question=True, names=FileRules(chat).list_unread())
    if (readers := _find_readers_of_meant_file(chat, reply)) and _can_ask_for(chat, readers):
        yield AskedCall(readers, by_question=True)
    if not (chat.profile.forces_calls and asks_for_nothing(chat.toolbox.tools, find_question(chat))):
        yield from _list_calls_for_question(chat, reply, rejected, described)


def _find_spelled_tools(chat: Conversation, rejected: Sequence[ToolCall]) -> list[Tool]:
    """Return the tools that void calls mean by another name: a file is renamed by the tool that moves one."""
    tools = chat.toolbox.tools
    unknown = [call for call in rejected if not find_tools(call.name, tools)]
    meant = [find_by_parameters(call.arguments, tools) for call in unknown]
    return [found[0] for found in meant if len(found) == 1]


def _list_calls_for_question(
    chat: Conversation,
    reply: str,
    rejected: Sequence[ToolCall] | None,
    described: Sequence[ToolCall],
) -> Iterator[AskedCall]:
    requests = OpenRequests(chat)
    is_chosen = can_choose(chat, find_question(chat))
    if is_chosen and not has_called(chat):
        yield from _list_first_calls(chat, reply, rejected, described)
        return
    if (helping := requests.find_helping_tools()) and _can_ask_for(chat, helping):
        yield AskedCall(helping)
    if can_compare(chat) and not is_chosen:
        yield from _list_compared_calls(chat, rejected)
    question = find_question(chat)
    rules = ReplyRules(chat)
    # behind a change, a forced one would be made after the one that was asked for
    is_first = not has_called(chat) or rules.is_change_pending()
    is_change = asks_for_change(question) and not split_requests(question) and is_first
    is_open = rules.is_change_open(reply) or (rejected and is_change and chat.profile.forces_calls)
    if is_open and (changing := _find_changing_tools(chat, question)):
        meant = None
        yield AskedCall(changing, by_question=not has_called(chat))
        if files := FileRules(chat).list_read_files():
            # behind an answer that recites the file, a model writes it as it was
            yield AskedCall(changing, "\n\n".join([question, *files]))
    elif meant := _find_meant_call(chat, reply, rejected, described):
        yield meant
    elif (before := requests.find_tools_before()) and _can_ask_for(chat, before):
        yield AskedCall(before, by_question=True, names=list_names(question) or list_follow_ups(question))
    if is_chosen:
        yield from _list_chosen_calls_behind(chat)
        return
    # before what the words mean: a call with one of these has a value of the question
    if left_over := requests.find_left_over():
        yield from _list_calls_for_rest(chat, left_over)
    yield from _list_calls_by_words(chat, meant)


def _list_calls_by_words(chat: Conversation, meant: AskedCall | None) -> Iterator[AskedCall]:
    """Return the calls for what of the question is open, of the tools that its words mean, if the model cannot choose.

    Args:
        chat: The conversation.
        meant: The call that was asked for before.
    """
    request = OpenRequests(chat).find_open_request()
    sure = _find_sure_reading_tools(chat, request)
    if sure and not (meant and meant.tools == sure):
        yield AskedCall(sure, by_question=True)
    if request:
        yield from _list_calls_for_request(chat, request, is_meant=bool(meant or (sure and not has_called(chat))))


def _asks_to_store(chat: Conversation) -> bool:
    """Return whether a user asks to remember something; "Do you remember my town?" does not."""
    question = find_question(chat)
    return asks_to_remember(question) and not asks_what_was_said(question.casefold())


def _list_first_calls(
    chat: Conversation,
    reply: str,
    rejected: Sequence[ToolCall] | None,
    described: Sequence[ToolCall],
) -> Iterator[AskedCall]:
    """Return the first calls of a turn, of models that choose; what is to be remembered is looked up nowhere."""
    if not _asks_to_store(chat):
        yield from _list_chosen_calls(chat, reply, rejected, described)
    elif changing := _find_changing_tools(chat, find_question(chat)):
        yield AskedCall(changing, by_question=True)


def _list_chosen_calls(
    chat: Conversation,
    reply: str,
    rejected: Sequence[ToolCall] | None,
    described: Sequence[ToolCall],
) -> Iterator[AskedCall]:
    """Return the first calls of a turn, in the conversation and alone, that are made if the model prefers them."""
    question = find_question(chat)
    tools = list_choosable_tools(chat, question)
    values = [str(value) for call in rejected or () for value in walk_leaves(call.arguments)]
    if ReplyRules(chat).tells_what_was_said(reply if rejected is None else "", values):
        yield from _list_domain_calls(chat, is_only_named=True)
        return
    requests = OpenRequests(chat)
    shown = [tool for call in described for tool in find_tools(call.name, tools)]
    if shown and rejected is None:  # its values are not those of the question
        yield AskedCall(shown, question, by_question=True)
    if rejected and (meant := _find_meant_call(chat, reply, rejected, described)):
        yield meant
    else:
        yield from _list_calls_going_on(chat, question)
    # "How much did I spend in total according to expenses.csv?" is read, and not calculated
    if takers := _find_takers(chat, tools):
        yield AskedCall(takers, by_question=True, names=list_places(question), is_chosen=True)
    if not rejected:
        yield AskedCall(tools, is_chosen=True, is_likely=True)
    if parts := requests.list_parts():
        yield from _list_chosen_parts(chat, parts)
    elif _may_ask_alone(chat):
        yield AskedCall(tools, question, by_question=True, is_chosen=True, is_likely=True)
    if not parts:
        yield AskedCall(tools, is_chosen=True, is_meant=True, is_likely=True)
    yield from _list_calls_for_lack(chat, reply, rejected)
    yield from _list_domain_calls(chat, is_only_named=False)


def _list_domain_calls(chat: Conversation, *, is_only_named: bool) -> Iterator[AskedCall]:
    """Return the call of the server that a question is about, made whatever the model prefers if the question names it.

    "What does the memory say of Ben?" is not of the machine's. "Is theirs dearer? Our prices are in the database."

    Args:
        chat: The conversation.
        is_only_named: Only a server that the question names as the place where it is.
    """
    question, made = find_question(chat), list_called(chat)
    domain = [tool for tool in _find_domain_reading_tools(chat, question) if (tool.server, tool.name) not in made]
    is_named = says_where(question, domain)
    if domain and (is_named or not is_only_named):
        yield AskedCall(domain, is_chosen=not is_named)


def _list_calls_going_on(chat: Conversation, question: str) -> Iterator[AskedCall]:
    """Return the calls with which a first question goes on with the turn before: "and the library?", "is it open?"."""
    requests = OpenRequests(chat)
    before = requests.find_tools_before() if requests.is_follow_up() else []
    if before and _can_ask_for(chat, before):
        names = list_names(question) or list_follow_ups(question)
        yield AskedCall(before, by_question=True, names=names, is_chosen=not names)
    elif near := requests.find_near_tools():
        yield AskedCall(near, is_chosen=True)


def _find_takers(chat: Conversation, tools: Sequence[Tool]) -> list[Tool]:
    """Return those of some tools that take the files or addresses of the question; of a new file, those that write.

    Where it names none, those that read the file that it has in words.
    """
    question, rules = find_question(chat), FileRules(chat)
    takers = rules.find_takers(list_places(question), tools)
    if rules.names_new_file() and asks_for_change(question):
        takers = [taker for taker in takers if may_write(taker) and makes_text(taker)]
    return takers or rules.find_readers_of_meant_file()


def _list_calls_for_lack(chat: Conversation, reply: str, rejected: Sequence[ToolCall] | None) -> Iterator[AskedCall]:
    """Return the calls for what a reply says that it lacks: "I would need to query the database".

    Asked in words, a model makes it up. A name is searched for that it says nothing of, or looks up where it is not.
    """
    question = find_question(chat)
    names = list_names(drop_told(question))
    is_refused = is_refusal(reply) and rejected is None
    needs_tool = rejected is None and needs_look_up(reply) and not (names or is_apology(reply))
    if needs_tool and (domain := _find_domain_reading_tools(chat, f"{question}\n{reply}")):
        yield AskedCall(domain)
    looked_up = [call for call in rejected or () if not any(map(may_write, find_tools(call.name, chat.toolbox.tools)))]
    if is_refused or any(uses_name(call.arguments, names) for call in looked_up):
        searching = [tool for tool in chat.toolbox.tools if tool.server and searches(tool)]
        if names and searching and not list_places(question) and _can_ask_for(chat, searching):
            yield AskedCall(searching, by_question=True, names=names)


def _list_chosen_calls_behind(chat: Conversation) -> Iterator[AskedCall]:
    """Return the further calls of a turn, made if the model prefers them: for a failed one, and for each part."""
    requests = OpenRequests(chat)
    if others := requests.find_other_tools():
        # of all of them a model calls anything behind the one that failed
        yield AskedCall(others, by_question=True, is_chosen=True, is_likely=True)
    # first in the conversation, which says what is asked of "what at the harbour?"
    if (left_over := requests.find_left_over()) and not _asks_to_store(chat):
        tools = list_choosable_tools(chat, find_question(chat))
        takers = FileRules(chat).find_takers(left_over, tools)
        yield AskedCall(takers or tools, by_question=True, names=left_over, is_chosen=True)
    yield from _list_chosen_parts(chat, requests.list_parts())
    if joined := requests.find_joined_tools():
        # in the conversation, a model may repeat the first call
        for request in (*requests.list_named_parts(), ""):
            yield AskedCall(joined, request, by_question=True, is_joined=True)
    yield from _list_domain_calls(chat, is_only_named=True)


def _list_compared_calls(chat: Conversation, rejected: Sequence[ToolCall] | None) -> Iterator[AskedCall]:
    """Return the calls of likely tools, of models that cannot choose: for what failed, or has a name and no call."""
    question = find_question(chat)
    names = list_names(drop_told(question))
    if others := OpenRequests(chat).find_other_tools():
        yield AskedCall(others, by_question=True, is_likely=True)
    elif not has_called(chat) and (names or rejected):
        yield AskedCall(list_choosable_tools(chat, question), by_question=True, names=names, is_likely=True)


def _list_chosen_parts(chat: Conversation, parts: Sequence[str]) -> Iterator[AskedCall]:
    """Return the calls for the parts of a question, each asked alone; of what takes the file or address it names."""
    for part in parts:
        tools = list_choosable_tools(chat, part)
        takers = FileRules(chat).find_takers(list_places(part), tools)
        yield AskedCall(takers or tools, part, by_question=True, is_chosen=True, is_likely=not takers)
        yield AskedCall(tools, part, by_question=True, is_chosen=True, is_meant=True, is_likely=True)


def _find_readers(chat: Conversation) -> list[Tool]:
    """Return the tools that read the file which a question asks to change, where the model can be made to call."""
    if not (chat.profile.forces_calls and asks_for_change(find_question(chat))):
        return []
    return FileRules(chat).find_readers()


def _find_readers_of_meant_file(chat: Conversation, reply: str) -> list[Tool]:
    """Return the tools that read the file of a question that has its name in words, where a reply has none."""
    lacks_access = is_refusal(reply) or ReplyRules(chat).find_pointing(reply)
    if not (chat.profile.forces_calls and lacks_access) or has_called(chat):
        return []
    return FileRules(chat).find_readers_of_meant_file()


def list_choosable_tools(chat: Conversation, message: str) -> list[Tool]:
    """Return the tools of servers that a message may be for: those that change something where it asks for that."""
    is_change = asks_for_change_by(chat.toolbox.tools, message) and not is_question(message)
    return [tool for tool in chat.toolbox.tools if tool.server and (is_change or not may_write(tool))]


def _list_calls_for_request(chat: Conversation, request: str, is_meant: bool) -> Iterator[AskedCall]:
    """Return the calls for a request: what the model makes of it alone, if no tool is meant, and its server's tools."""
    if not is_meant and _may_ask_alone(chat) and not is_follow_up(request):
        yield AskedCall(request=request, by_question=True)
    if domain := _find_domain_reading_tools(chat, request):
        yield AskedCall(domain)


def _find_meant_call(
    chat: Conversation,
    reply: str,
    rejected: Sequence[ToolCall] | None,
    described: Sequence[ToolCall],
) -> AskedCall | None:
    """Return the call that a reply should have been: of a tool for what it gives to another, or that it means."""
    places = list_places(find_question(chat))
    takers = _find_intended_tools(chat, rejected or described)
    if rejected and not (takers or has_called(chat)):
        is_new = asks_for_change(find_question(chat)) and FileRules(chat).names_new_file()
        tools = [*filter(makes_text, chat.toolbox.tools)] if is_new else list_reading(chat.toolbox.tools)
        takers = FileRules(chat).find_takers(places, tools)
    if takers and _can_ask_for(chat, takers):
        names = places or list_follow_ups(find_question(chat))
        return AskedCall(takers, by_question=bool(names), names=names)
    if has_called(chat) or rejected is not None:
        return None
    meant, is_named = _find_meant_tools(chat, reply)
    return AskedCall(meant, by_question=not is_named, is_described=is_named) if meant else None


def find_corrected_call(chat: Conversation) -> AskedCall | None:
    """Return the call that a user asks for who refuses one with a reason: "use list_directory", "not 5, 7".

    It is of the tool that the reason names, or the refused call with a number or a file of the reason.
    Left to itself, a model repeats the reason in words.
    """
    refused, shown = chat.history[-1].result, shown_names(chat.toolbox.tools)
    if not (refused and refused.decline_reason == "because" and chat.profile.forces_calls):
        return None
    if tools := find_named_tools(refused.text, shown):
        return AskedCall(tools) if _can_ask_for(chat, tools) else None
    tools = [tool for tool in shown.values() if (tool.server, tool.name) == (refused.server, refused.tool)]
    names = [name for name in list_names(refused.text) if not name.isalpha()] + list_quoted(refused.text)[-1:]
    return AskedCall(tools, names=names) if names and _can_ask_for(chat, tools) else None


def find_question(chat: Conversation) -> str:
    """Return what the user asks in this turn."""
    return chat.history[find_last_turn(chat.history)].question


def has_called(chat: Conversation) -> bool:
    """Return whether a call of this turn has been answered."""
    return any(message.role == "tool" for message in chat.history[find_last_turn(chat.history) :])


def list_called(chat: Conversation) -> set[tuple[str, str]]:
    """Return server and name of each tool that was called in this turn."""
    turn = chat.history[find_last_turn(chat.history) :]
    return {(message.result.server, message.result.tool) for message in turn if message.result}


def _can_ask_for(chat: Conversation, tools: Sequence[Tool]) -> bool:
    """Return whether the engine can be forced to call these tools, or asked for that."""
    return not chat.backend.native_tools and bool(can_force_calls(chat) or request_call(chat, tools))


def _find_meant_tools(chat: Conversation, reply: str) -> tuple[list[Tool], bool]:
    """Return the tools of which a reply should be a call, and whether it names them, or calculates where a tool does.

    Where it names none, they only read, unless it leaves a change out: those that take a value of the question, or the
    one that the question asks for as its words say.
    """
    question, shown = find_question(chat), shown_names(chat.toolbox.tools)
    is_strict = chat.profile.forces_calls
    meant = named = find_named_tools(reply, shown)
    if not named and is_strict and works_out(reply):
        meant = named = _find_sure_reading_tools(chat, "calculate")
    if not named:
        meant = find_refused_tools(reply, question, shown, is_strict) or _find_sure_reading_tools(chat, question)
        if is_strict and not meant and is_refusal(reply):
            index = index_tools(shown.values())
            meant = rank_tools(index, f"{question}\n{find_lack(reply)}", chat.tool_usage.counts)[:_MAX_LIKELY]
        meant = _select_reading(meant, question)
        # an address is one of the web sooner than a server's resource, which the program's own tool reads
        meant = [tool for tool in meant if tool.server] or meant
    if not meant and _leaves_change(chat, reply):
        meant = _find_changing_tools(chat, question)
        # "Yes, I would order two." of a tool that orders; "Write a poem." may be answered by the reply itself
        is_left = is_refusal(reply) or asks_to_remember(question)
        acting = [tool for tool in meant if names_verb(tool, Source(question)) and not tool.name.startswith(_MAKING)]
        places = list_places(question)
        meant = meant if is_left else acting or FileRules(chat).find_takers(places, meant)
    return (meant, bool(named)) if _can_ask_for(chat, meant) else ([], False)


def _leaves_change(chat: Conversation, reply: str) -> bool:
    """Return whether a reply refuses a change, or only speaks of it, where that was measured."""
    question = find_question(chat)
    is_spoken_of = not brings_content(reply) or bool(list_places(question))
    is_left = asks_to_remember(question) or (asks_for_change(question) and is_spoken_of)
    return is_left and chat.profile.forces_calls


def _select_reading(tools: Sequence[Tool], question: str) -> list[Tool]:
    """Return the tools that only read, and, where one takes the files of a question, none for folders or media."""
    reading, names = [tool for tool in tools if not may_write(tool)], list_names(question)
    fitting = [tool for tool in reading if not any(takes_other_paths(tool, name) for name in names)]
    return fitting or reading


def _find_sure_reading_tools(chat: Conversation, request: str) -> list[Tool]:
    """Return the tools that a request, or each of those that it joins, clearly means, and that only read."""
    if not chat.profile.forces_calls:
        return []
    sure = find_sure_tools(index_tools(chat.toolbox.tools), request, chat.tool_usage.counts)
    return [tool for tool in sure if tool.server and not may_write(tool)]


def _find_domain_reading_tools(chat: Conversation, request: str) -> list[Tool]:
    """Return the likely tools of the server that a request is about, or names, and that only read."""
    tools, source = chat.toolbox.tools, Source(request)
    domain = find_domain_tools(index_tools(tools), request, chat.tool_usage.counts)
    named = [tool for tool in tools if tool.server and shares_term(tool.server, source)]
    reading = [tool for tool in domain or named if not may_write(tool)]
    called = [name for server, name in list_called(chat) if reading and server == reading[0].server]
    if any(map(takes_query, reading)):
        own = [tool for tool in chat.toolbox.tools if tool.server == reading[0].server]
        reading = list_table_tools(own, called) or [*filter(takes_query, reading)]
    elif called:
        return []
    return reading[:_MAX_LIKELY] if _can_ask_for(chat, reading) else []


def _find_changing_tools(chat: Conversation, question: str) -> list[Tool]:
    """Return the likely tools for a change that a question asks for, without those that have failed in this turn.

    The reason why a call was refused may say it: "not the memory, the file list.txt".
    """
    called = list_called(chat)
    results = [message.result for message in chat.history[find_last_turn(chat.history) :] if message.result]
    reasons = [result.text for result in results if result.decline_reason == "because"]
    changing = [
        tool
        for tool in chat.toolbox.tools
        if may_write(tool) and may_be_meant(tool, question) and (tool.server, tool.name) not in called
    ]
    rules = FileRules(chat)
    files = [*filter(is_file_name, list_places("\n".join(reasons))), *rules.list_named_files()]
    changing = rules.find_takers(files, changing) or changing
    # what one tool of a server could not do, another one of it may: "Entity not found" of what is to be created
    failed = {result.server for result in results if result.status == "failed"}
    changing = [tool for tool in changing if tool.server in failed] or changing
    if moving := [tool for tool in rules.find_moving_tools() if tool in changing]:
        changing = moving
    elif rules.names_new_file():  # there is nothing to edit, or to add to a repository
        changing = [*filter(makes_text, changing)] or changing
    if rules.deletes_file():  # what writes or moves is none for it
        changing = [tool for tool in changing if shares_term(tool.name, Source("delete"))]
    requests = [translate_remembering(question), *([_REMEMBERING] if asks_to_remember(question) else [])]
    index, counts = index_tools(changing), chat.tool_usage.counts
    ranked = next(filter(None, (rank_tools(index, request, counts) for request in requests)), []) if changing else []
    likely = ranked or (changing if files else [])
    likely = likely[:_MAX_LIKELY]
    return likely if _can_ask_for(chat, likely) else []


def _find_intended_tools(chat: Conversation, rejected: Sequence[ToolCall]) -> list[Tool]:
    """Return the tools for what void calls give to tools that do not take it."""
    tools = chat.toolbox.tools
    called = [(tool, call) for call in rejected for tool in find_tools(call.name, tools)]
    made, rules = list_called(chat), ValueRules(chat)
    takers = [taker for tool, call in called for taker in rules.find_intended_tools(tool, call.arguments)]
    if FileRules(chat).has_read_all():
        takers = [taker for taker in takers if may_write(taker)]
    return [taker for taker in takers if (taker.server, taker.name) not in made]


def _may_ask_alone(chat: Conversation) -> bool:
    """Return whether a request may be asked as if it were the first of the conversation.

    Behind turns in words a model goes on in words, also where it calls a tool for the same question alone. An engine
    that would lose the conversation is not asked.
    """
    has_earlier = len(chat.visible_messages) > 1  # turns, or calls of this one, of which the request is a part
    return has_earlier and not (chat.backend.native_tools or loses_conversation(chat))


def _list_calls_for_rest(chat: Conversation, left_over: Sequence[str]) -> Iterator[AskedCall]:
    """Return the calls that may look up what a question names and nobody has looked up, in the order to try them.

    Of tools that take a file or an address left over, then of any, and of likely ones that the turn has not called,
    since a model repeats its last call; before a query, of those that tell the tables. An engine that can only be asked
    is asked for a likely one. A look-up changes nothing: forced to call any tool, a model made an appointment at a date
    that had the number left over. At last the part of the question is asked alone.
    """
    question, made = find_question(chat), list_called(chat)
    tools = [tool for tool in chat.toolbox.tools if tool.server and properties_of(tool.schema)]
    if not asks_for_change(question):
        tools = [tool for tool in tools if not may_write(tool)]
    likely = rank_tools(index_tools(tools), question, chat.tool_usage.counts)
    if not can_force_calls(chat):
        if request_call(chat, likely[:_MAX_LIKELY]):
            yield AskedCall(likely[:_MAX_LIKELY], names=left_over)
    else:
        takers = FileRules(chat).find_takers(left_over, tools)
        others = [tool for tool in likely if (tool.server, tool.name) not in made][:_MAX_LIKELY]
        if chat.profile.forces_calls and others and takes_query(others[0]):
            own = [tool for tool in chat.toolbox.tools if tool.server == others[0].server]
            if steps := list_table_tools(own, [name for server, name in made if server == others[0].server]):
                yield AskedCall(steps)
        # a number may be of any tool, a name is rather of a likely one
        tiers = (takers, others, tools) if all(map(str.istitle, left_over)) else (takers, tools, others)
        yield from (AskedCall(tier, names=left_over) for tier in tiers if tier)
    if chat.profile.forces_calls and _may_ask_alone(chat):
        parts = [part for part in split_clauses(question) if any(name in part for name in left_over)]
        yield AskedCall(request=parts[0] if parts else question, by_question=True, names=left_over)
