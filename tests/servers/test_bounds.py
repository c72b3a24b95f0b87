"""Nothing hangs: every wait in `servers/` has a limit, or stands in BOUNDS with what ends it and the test of that."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

import pytest

from rkllm_chat import servers

from .bounds import Wait, find_unbounded

PACKAGE = Path(servers.__file__).parent
SILENT_PROCESS = "test_silence.py::test_no_door_hangs_on_a_process_that_falls_silent"
SILENT_URL = "test_silence.py::test_no_door_hangs_on_a_url_that_falls_silent"
LEFT = "test_transports.py::test_nothing_is_left_when_a_transport_is_closed"
LOGIN_LIMIT = "test_login.py::test_a_login_has_a_limit_of_its_own"
FLOW = "The SDK's steps, each of which is a request with FETCH_S or the person; their number is bounded."
TASK = "test_tasks.py::test_a_task_gives_its_result_in_the_end"
TASK_ASKS = "test_tasks.py::test_who_is_asked_may_think_longer_than_a_call_may_take"
TASK_HANGS = "test_tasks.py::test_a_task_that_does_not_move_ends_at_the_limit_and_is_cancelled"
RESTS = "test_watch.py::test_a_server_rests_when_nobody_needs_it_and_is_there_when_somebody_does"
LEVEL = "test_logs.py::test_a_server_is_told_from_which_level_on_to_log"
ONCE = "../test_oneshot_life.py::test_a_signal_while_the_sdk_waits_ends_the_command"
CONVERSATION = "test_transports.py::test_one_conversation_goes_over_every_transport_in_both_eras"


@dataclass(frozen=True)
class Bound:
    """Waits of one function that have no limit of their own, what ends them, and a test that fails if it does not."""

    file: str
    function: str
    waits: tuple[str, ...]
    why: str
    proof: str


BOUNDS = (
    Bound(
        "callbacks.py",
        "Answers._ask",
        ("ask",),
        "A person or a model answers; the face has its own limits, and the session ends it when it is left.",
        "test_features.py::test_a_question_of_a_server_is_answered_by_whoever_sits_there",
    ),
    Bound(
        "callbacks.py",
        "visit_pages",
        ("asks.elicit",),
        "A person looks at a page, within a turn that can be stopped.",
        "test_toolbox.py::test_a_call_that_is_stopped_is_cancelled_at_the_server_and_the_server_lives",
    ),
    Bound(
        "caller.py",
        "Body.__aiter__",
        ("async for self._response.aiter_raw",),
        "Each piece has the client's read timeout; how many come is the limit of whoever asked.",
        SILENT_URL,
    ),
    Bound(
        "caller.py",
        "Body.read_all",
        ("async for self",),
        "At most LONGEST bytes; one that dribbles is left when the call that asked has its limit, or at the end.",
        SILENT_URL,
    ),
    Bound(
        "caller.py",
        "Body.aclose",
        ("self._response.aclose",),
        "Closes a socket and reads no more.",
        SILENT_URL,
    ),
    Bound("caller.py", "Caller._look_at_peer", ("stream.aclose",), "Closes a socket, nothing was sent.", SILENT_URL),
    Bound("caller.py", "Caller.send", ("response.aclose",), "Closes a socket and reads no more.", SILENT_URL),
    Bound(
        "caller.py",
        "Caller._judge",
        ("body.read_all", "response.aclose"),
        "As long as the body; see Body.read_all.",
        SILENT_URL,
    ),
    Bound(
        "caller.py",
        "Caller._send_judged",
        ("super().send",),
        "The client's timeouts: CONNECT_S, WRITE_S and one for reading (set_patience), until the headers are there.",
        SILENT_URL,
    ),
    Bound("callbacks.py", "Answers.take_message", ("listener.take",), "It takes a report and waits for nothing.", TASK),
    Bound("connection.py", "Connection._begin", ("send_once",), "The patience of the call.", SILENT_PROCESS),
    Bound("connection.py", "Connection._begin.send", ("send_once",), "The patience of the call.", SILENT_PROCESS),
    Bound("connection.py", "Connection._send_call", ("client.call_tool",), "The same, around it.", SILENT_PROCESS),
    Bound(
        "caller.py",
        "Caller._send_known",
        ("send", "self._login.send"),
        "The same, and what a login takes; see Login.",
        LOGIN_LIMIT,
    ),
    Bound(
        "life.py",
        "Life._get_client",
        ("asyncio.wait", "async with self._starting", "asyncio.shield"),
        "A check and a start have their limits, and whoever waited for a start that failed does not try another.",
        SILENT_PROCESS,
    ),
    Bound("life.py", "Life.open", ("async with self._starting",), "The one start before.", SILENT_PROCESS),
    Bound("life.py", "Life.restart", ("async with self._starting",), "The same.", SILENT_PROCESS),
    Bound(
        "life.py",
        "Life._live",
        ("asyncio.wait",),
        "The owner's wait, meant to last until the server is to be closed, has gone or is not needed.",
        LEFT,
    ),
    Bound(
        "life.py",
        "Life._own",
        ("async with self._make_client",),
        "Entering is within connect_s; leaving is the transport's end, and `aclose` waits CLOSE_S for it.",
        SILENT_PROCESS,
    ),
    Bound(
        "life.py",
        "Life._refresh",
        ("while",),
        "In the background, at most once in REFRESH_S, as long as there is news; `_live` cancels it.",
        "test_faults_lists.py::test_a_list_is_not_asked_for_more_often_than_every_two_seconds",
    ),
    Bound(
        "life.py",
        "Life._run_owner",
        ("ready.wait",),
        "Set when the server is open and in any case when its owner ends, which connect_s sees to.",
        SILENT_PROCESS,
    ),
    Bound(
        "connection.py",
        "Connection._send",
        ("send",),
        "A call has its patience, and the session's read timeout is that of any other request, at most LIST_S.",
        SILENT_PROCESS,
    ),
    Bound(
        "life.py",
        "Life._subscribe",
        ("client.subscribe_resource",),
        "The session's read timeout, and at the start connect_s.",
        SILENT_PROCESS,
    ),
    Bound(
        "credentials.py",
        "CredentialFile._wait_for",
        ("while",),
        "Its condition has the limit LOCK_S, longer than a refresh may take.",
        "test_credentials.py::test_two_programs_refresh_at_once_and_use_the_refresh_token_once",
    ),
    Bound("http.py", "Web._forward", ("while", "context.run"), "Lasts as long as the streams are open.", LEFT),
    Bound("http.py", "Web._post_all", ("while", "context.run"), "The same; each POST has POST_S.", LEFT),
    Bound("http.py", "Web._post", ("caller.post",), "POST_S, on the login's clock.", SILENT_URL),
    *(
        Bound("login.py", f"Login.{function}", waits, why, LOGIN_LIMIT)
        for function, waits, why in (
            ("_ask", ("async with self._asks.one_login",), "The logins before, of which each has its limit login_s."),
            ("_ask", ("asyncio.gather",), "Its tasks are cancelled, and hold nothing that waits."),
            ("_hear_person", ("self._asks.log_in", "while"), "Within login_s; the person gives up with an empty line."),
            ("_follow", ("async with aclosing", "flow.__anext__", "flow.asend", "while"), FLOW),
            ("_refresh", ("async with aclosing", "flow.__anext__", "flow.asend", "while"), FLOW),
            ("_log_in", ("async with self._lock",), "A login of a task beside this one, which has an end."),
            ("_renew", ("async with self._lock", "async with self._file.locked"), "The same; and LOCK_S."),
            ("_send", ("send", "attempt"), "What the caller sends has its limits, and each attempt those above."),
        )
    ),
    Bound(
        "loopback.py",
        "Loopback._read",
        ("reader.readuntil",),
        "Whoever calls it gives it REQUEST_S.",
        "test_login.py::test_a_stranger_with_another_state_is_turned_away_and_the_login_goes_on",
    ),
    Bound("loopback.py", "Loopback.hear", ("asyncio.start_server", "heard"), "Within login_s.", LOGIN_LIMIT),
    *(
        Bound("providers.py", function, waits, "The person, within login_s; or a signature.", LOGIN_LIMIT)
        for function, waits in (
            ("Machine._perform_authorization", ("super()._perform_authorization",)),
            ("Person._perform_authorization", ("super()._perform_authorization",)),
            ("Signer._perform_authorization", ("super()._perform_authorization",)),
            ("make_person", ("ask",)),
            ("make_person.answer", ("ask",)),
            ("read_key", ("sign",)),
            ("read_key.sign_or_explain", ("sign",)),
        )
    ),
    Bound("life.py", "Life._rest", ("while",), "As long as nobody rests the server; `_live` cancels it.", RESTS),
    Bound("life.py", "Life.send_level", ("client.session.set_logging_level",), "The session's read timeout.", LEVEL),
    Bound("life.py", "end_all", ("asyncio.gather",), "They have been cancelled.", LEFT),
    Bound("requests.py", "get_prompt", ("client.get_prompt",), "The session's read timeout.", SILENT_PROCESS),
    Bound("requests.py", "get_prompt.send", ("client.get_prompt",), "The same.", SILENT_PROCESS),
    Bound("requests.py", "read_from", ("client.read_resource",), "The same.", SILENT_PROCESS),
    Bound("requests.py", "read_from.send", ("client.read_resource",), "The same.", SILENT_PROCESS),
    Bound("tasks.py", "Task.wait", ("while",), "The patience of the call is around it.", TASK_HANGS),
    Bound("tasks.py", "Task._look", ("self._ask",), "The session's read timeout, and the call's patience.", TASK_HANGS),
    Bound("tasks.py", "Task._tell_news", ("self._news",), "It hands a report on and waits for nothing.", TASK),
    Bound(
        "tasks.py", "ModernTask._heed_questions", ("self._ask",), "Its person, within the longest patience.", TASK_ASKS
    ),
    Bound("tasks.py", "ModernTask._take_result", ("self._ask",), "It reads what is there.", TASK),
    Bound(
        "tasks.py",
        "OlderTask.wait",
        ("super().wait", "asyncio.gather"),
        "As Task.wait; then it is cancelled.",
        TASK_HANGS,
    ),
    Bound("tasks.py", "OlderTask._look", ("super()._look",), "As Task._look.", TASK_HANGS),
    Bound("tasks.py", "OlderTask._pause", ("super()._pause",), "At most LONGEST_POLL_S.", TASK_HANGS),
    Bound(
        "tasks.py",
        "OlderTask._take_result",
        ("self._result or self._ask(self._fetch_result, self._longest_s)",),
        "The call's patience, and its longest as the limit of the request.",
        TASK_ASKS,
    ),
    Bound("tasks.py", "begin", ("client.session.send_request",), "The session's read timeout, and the patience.", TASK),
    Bound("tasks.py", "send", ("client.session.send_request",), "The same.", TASK_HANGS),
    Bound(
        "tasks.py", "check_result", ("client.session.validate_tool_result",), "At most a list of tools, as above.", TASK
    ),
    Bound("tasks.py", "answer", ("client.session.dispatch_input_request",), "As Answers._ask.", TASK_ASKS),
    Bound(
        "watch.py",
        "sleep_or_stay",
        ("asyncio.sleep(wait_s) if wait_s else asyncio.Event().wait()",),
        "In the background; `_live` cancels it.",
        LEFT,
    ),
    Bound("watch.py", "wait_until_idle", ("while",), "The same.", LEFT),
    Bound("watch.py", "wait_until_silent", ("while",), "The same; each question has its limit.", LEFT),
    Bound(
        "http.py",
        "Web._take_unsent",
        ("self._more.wait", "while"),
        "Waits for what this side wants to send; cancelled with the streams.",
        LEFT,
    ),
    Bound("http.py", "Web._wait_to_leave", ("self._leave.wait",), "Lasts until the transport is left.", LEFT),
    Bound(
        "http.py",
        "Web._open",
        ("self._connected.wait",),
        "Every way has CONNECT_S, the last one's end sets it, and connect_s cancels it before.",
        SILENT_URL,
    ),
    Bound(
        "http.py",
        "Web._try",
        ("async with Caller",),
        "Entered without a wait; leaving closes sockets, and `_close` cancels it after LEAVE_S.",
        SILENT_URL,
    ),
    Bound(
        "http.py",
        "Web._speak_http",
        ("async with streamable_http_client", "async with anyio.create_task_group", "async for streams[0]"),
        "Lasts until the transport is left; `_close` cancels it after LEAVE_S.",
        SILENT_URL,
    ),
    Bound(
        "http.py",
        "Web._speak_sse",
        ("async with caller.stream", "async with anyio.create_task_group", "async for httpx2.EventSource"),
        "Until its first event within CONNECT_S (`_try`), then until the transport is left.",
        SILENT_URL,
    ),
    Bound(
        "listening.py",
        "listen",
        ("while", "followed.changed.wait", "asyncio.wait", "again", "asyncio.gather"),
        "In the background as long as the server is open; `_live` cancels it.",
        SILENT_PROCESS,
    ),
    Bound(
        "listening.py",
        "listen_once",
        ("async with client.listen", "async for subscription"),
        "A subscription is meant to last; cancelled by `listen`.",
        SILENT_PROCESS,
    ),
    Bound(
        "stdio.py",
        "Stdio._close",
        ("self._ending",),
        "The steps of `_end_process`: GRACE_S each.",
        "test_stdio.py::test_no_process_of_a_server_is_left",
    ),
    Bound(
        "stdio.py",
        "Stdio._flush",
        ("while",),
        "Its condition has the limit FLUSH_S.",
        "test_faults_life.py::test_a_large_argument_for_a_server_that_does_not_read_times_out",
    ),
    Bound(
        "stdio.py",
        "Stdio._wait_for_all",
        ("while",),
        "Its condition has the limit.",
        "test_stdio.py::test_no_process_of_a_server_is_left",
    ),
    *(
        Bound("tap.py", function, (wait,), "The SDK's session waits here for its transport, which has an end.", LEFT)
        for function, wait in (
            ("ReadTap.receive", "self._inner.receive"),
            ("Stream.__aenter__", "self._inner.__aenter__"),
            ("Stream.__aexit__", "self._inner.__aexit__"),
            ("Stream.aclose", "self._inner.aclose"),
            ("Tap.__aenter__", "self.transport.__aenter__"),
            ("Tap.__aexit__", "self.transport.__aexit__"),
            ("WriteTap.send", "self._inner.send"),
        )
    ),
    Bound("once.py", "Once.ask", ("client.session.send_request",), "Its own limit_s.", ONCE),
    Bound("once.py", "Once.ask.send", ("client.session.send_request",), "The same.", ONCE),
    Bound("toolbox.py", "Toolbox._ask_each", ("asyncio.gather",), "Each question has its limit.", SILENT_PROCESS),
    Bound(
        "toolbox.py",
        "Toolbox.open",
        ("asyncio.wait",),
        "Each server's start has its connect_s; wait_s may be shorter.",
        SILENT_PROCESS,
    ),
    Bound(
        "toolbox.py",
        "Toolbox.aclose",
        ("asyncio.gather",),
        "Each connection is closed within CLOSE_S twice, which ends the starts too.",
        "test_toolbox.py::test_closing_does_not_wait_for_a_server_that_is_still_starting",
    ),
    Bound("toolbox.py", "Toolbox.apply", ("asyncio.gather",), "The ends and starts of connections.", SILENT_PROCESS),
    Bound(
        "transport.py",
        "uninterrupted",
        ("while", "asyncio.wait"),
        "The `_close` of a transport, which has limits of its own and must not be cut short.",
        "test_stdio.py::test_a_client_that_is_cancelled_twice_while_it_leaves_leaves_nothing",
    ),
    Bound(
        "websocket.py", "Judged.handshake", ("super().handshake",), "The library's open_timeout, OPEN_S.", SILENT_URL
    ),
    Bound("websocket.py", "WebSocket._connect", ("NoRedirect",), "The library's open_timeout, OPEN_S.", SILENT_URL),
    Bound("websocket.py", "WebSocket._read", ("while", "connection.recv"), "Ends with the connection.", LEFT),
    Bound(
        "websocket.py",
        "WebSocket._write",
        ("while", "connection.send", "self._unsent.get"),
        "Waits for what this side wants to send; `_close` cancels it.",
        LEFT,
    ),
)


def test_every_wait_has_a_limit_or_a_reason() -> None:
    sources = {path.name: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.glob("*.py"))}
    found = find_unbounded(sources)
    known = [Wait(bound.file, bound.function, wait) for bound in BOUNDS for wait in bound.waits]
    assert [wait for wait in found if wait not in known] == [], "give it a limit, or a row in BOUNDS"
    assert [wait for wait in known if wait not in found] == [], "these rows of BOUNDS are of nothing any more"


@pytest.mark.parametrize("proof", sorted({bound.proof for bound in BOUNDS}))
def test_the_proof_of_a_reason_is_a_test(proof: str) -> None:
    file, _, name = proof.partition("::")
    tree = ast.parse((Path(__file__).parent / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(
    ("body", "waits"),
    [
        ("await ready.wait()", ["ready.wait"]),
        ("async for piece in pieces(): pass", ["async for pieces"]),
        ("return [piece async for piece in pieces()]", ["async for pieces"]),
        ("async with lock: pass", ["async with lock"]),
        ("while True: await asyncio.sleep(1)", ["while"]),
        ("with anyio.fail_after(None): await ready.wait()", ["ready.wait"]),
        ("with anyio.fail_after(endless_s): await ready.wait()", ["ready.wait"]),
        ("with anyio.CancelScope(shield=True): await ready.wait()", ["ready.wait"]),
        ("await asyncio.wait(tasks)", ["asyncio.wait"]),
        ("await asyncio.wait(tasks, timeout=endless_s)", ["asyncio.wait"]),
        ("await asyncio.wait_for(task, None)", ["asyncio.wait_for"]),
        ("await asyncio.sleep(math.inf)", ["asyncio.sleep"]),
        ("await other.stay()", ["other.stay"]),
        ("await stay_with(other)", ["stay_with"]),
        (
            "scope = anyio.CancelScope(deadline=9)\nwith scope:\n    await one()\n"
            "    scope.deadline, x = math.inf, 1\n    await two()",
            ["two"],
        ),
        (
            "scope = anyio.CancelScope(deadline=9)\nwith scope:\n    async with one():\n"
            "        scope.deadline = math.inf",
            ["async with one"],
        ),
        ("with anyio.move_on_after(limit_s):\n    async def stay_on(): await ready.wait()", ["ready.wait"]),
        ("with anyio.fail_after(limit_s): await ready.wait()", []),
        ("with anyio.move_on_after(limit_s) as scope:\n    while True: await ready.wait()", []),
        ("scope = anyio.CancelScope(deadline=9)\nwith scope: await one()", []),
        ("await asyncio.wait(tasks, timeout=limit_s)", []),
        ("await asyncio.wait_for(task, limit_s)", []),
        ("await asyncio.sleep(limit_s)", []),
        ("await anyio.lowlevel.checkpoint()", []),
        ("await self.go()", []),
        ("await self.stay()", []),
        ("await go()", []),
        ("await thing.stay()", []),
        ("for one in things: await one.stay()", []),
        ("await (self.go() if ready else go())", []),
        ("await self.find().stay()", []),
    ],
)
def test_the_reader_finds_what_has_no_limit_and_nothing_else(body: str, waits: list[str]) -> None:
    text = f"""
class Base:
    async def stay(self): pass

class Thing(Base):
    def find(self) -> Thing: ...

    async def go(self, limit_s, thing: Thing, things: list[Thing], other, stay_with, endless_s=None):
{indent(body, "        ")}

async def go(): pass

async def stay_with(): pass
"""
    assert [wait.what for wait in find_unbounded({"thing.py": text})] == waits
