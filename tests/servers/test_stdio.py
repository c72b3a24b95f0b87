"""The stdio transport with real processes: what a server may write, how it may fail, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client

from rkllm_chat.config import ServerConfig
from rkllm_chat.errors import ConnectError
from rkllm_chat.servers.lines import LONGEST, Lines
from rkllm_chat.servers.programs import MARK
from rkllm_chat.servers.transport import Transport
from rkllm_chat.servers.transports import open_transport

from .talks import Heard, call, is_there, make_server, read_log, talk, wait_until

UNUSABLE = -32700
CLOSED = -32000
SOON_S = 1.5
"""A failure that is told at once and not at the limit, on a busy machine."""


async def act(client: Client, _: Transport) -> Heard:
    return await call(client)


async def act_twice(client: Client, _: Transport) -> tuple[Heard, Heard]:
    return await call(client), await call(client, "echo")


async def act_and_see_the_end(client: Client, transport: Transport) -> tuple[Heard, str, int | None]:
    heard = await call(client)
    return heard, transport.ended, transport.exit_code


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r'answer(m) + b"\n"', "fine"),
        (r'answer(m) + b"\r\n"', "fine"),
        (r'b"\xef\xbb\xbf" + answer(m) + b"\n"', "fine"),
        (r'b"\n \n\t\r\n" + answer(m) + b"\n"', "fine"),
        (r'b"Listening on port 80\n" + answer(m) + b"\n"', "fine"),
        (r'b"\0\0\n" + bytes(range(256)) * 9 + b"\n" + answer(m) + b"\n"', "fine"),
        (r'b"{not json}\n[1, 2\n{\"a\":\n" + answer(m) + b"\n"', "fine"),
        (r'b"42\n[]\nnull\n{\"level\": \"info\"}\n{\"jsonrpc\": \"2.0\"}\n" + answer(m) + b"\n"', "fine"),
        (r'b"{\"id\": %d, \"result\": 1}\n" % m["id"] + answer(m) + b"\n"', "fine"),
        (r'answer(m, "caf@").replace(b"@", b"\xe9") + b"\n"', "caf\ufffd"),
        (r'answer(m, "@!").replace(b"@", b"\\ud83d") + b"\n"', "\ufffd!"),
        (r'answer(m, "@").replace(b"@", b"\\ud83c\\udf0d") + b"\n"', "🌍"),
        (r'notify("message", level="info", data=1)[:-1] + answer(m) + b"\n"', "fine"),
        (r'b"[" + notify("message", level="info", data=1)[:-1] + b"," + answer(m) + b"]\n"', "fine"),
        (r'json.dumps(json.loads(answer(m)), indent=2).encode() + b"\n"', "fine"),
        (r'json.dumps([json.loads(answer(m))], indent="\t").encode() + b"\n"', "fine"),
        (r'answer(m)[:-1] + b", \"error\": null}\n"', "fine"),
        (r'b"{\"jsonrpc\": \"2.0\", \"id\": 99, \"result\": {}}\n" + answer(m) + b"\n"', "fine"),
        (r'dump({"id": None}, error={"code": 1, "message": "odd"}) + b"\n" + answer(m) + b"\n"', "fine"),
        (r'answer(m, "one") + b"\n" + answer(m, "two") + b"\n"', "one"),
        (r'answer(m, "x" * 3000000) + b"\n"', "x" * 3_000_000),
    ],
    ids=[
        "a line", "CRLF", "byte order mark", "blank lines", "a banner", "bytes that are no text", "broken JSON",
        "other JSON", "an older JSON-RPC", "no UTF-8", "half a character", "a character in halves", "two on a line",
        "a batch", "over many lines", "a batch over many lines", "a null error", "an answer to nobody",
        "an error for nobody", "two answers", "3 MB",
    ],
)  # fmt: skip
def test_an_answer_is_found_in_whatever_surrounds_it(written: str, text: str, tmp_path: Path) -> None:
    server = make_server(tmp_path, f"listen(lambda m: write({written}))")
    first, second = talk(server, tmp_path, act_twice)
    assert (first.text, first.code, second.text) == (text, None, "echo")


def test_numbers_that_json_does_not_have_become_null(tmp_path: Path) -> None:
    script = 'listen(lambda m: write(answer_with(m, b"[NaN,-Infinity,1e999,1.5]") + b"\\n"))'

    async def look(client: Client, _: Transport) -> Any:
        return (await client.session.call_tool("act", {})).structured_content

    assert talk(make_server(tmp_path, script), tmp_path, look) == {"n": [None, None, None, 1.5]}


def test_an_answer_that_comes_in_pieces_is_put_together(tmp_path: Path) -> None:
    script = """
def dribble(message):
    for byte in answer(message, "häuser 家々") + b"\\n":
        write(bytes([byte]))
listen(dribble)
"""
    assert talk(make_server(tmp_path, script), tmp_path, act).text == "häuser 家々"


@pytest.mark.parametrize(
    "before",
    [
        r'dump({"id": None}, error={"code": -32601, "message": "no such notification"}) + b"\n"',
        r'notify("message", level="info", data=1)[:-9] + b"\n"',
        r'b"Got {\"jsonrpc\": \"2.0\", \"id\": 3, \"result\": {}\n"',
        r'json.dumps(m).encode()[:-2] + b"\n"',
        r'notify("cancelled", requestId=[1])',
    ],
    ids=["an error for a notification", "a broken notification", "a log", "an echo", "an odd notification"],
)
def test_a_slow_answer_is_not_given_up_for_what_comes_before_it(before: str, tmp_path: Path) -> None:
    server = make_server(tmp_path, f"listen(lambda m: (write({before}), time.sleep(0.5), reply(m)))")
    assert talk(server, tmp_path, act).text == "fine"


def test_what_is_passed_over_is_told_once_in_the_log(tmp_path: Path) -> None:
    script = r'listen(lambda m: write(b"stray one\nstray two\n" + answer(m) + b"\n"))'
    talk(make_server(tmp_path, script), tmp_path, act)
    assert read_log(tmp_path) == "[rkllm-chat] Passed over: it is no JSON: b'stray one'\n"


@given(
    lines=st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b""))),
    cuts=st.lists(st.integers(0, 400)),
)
def test_lines_are_the_same_however_their_bytes_come(lines: list[bytes], cuts: list[int]) -> None:
    found: list[bytes] = []
    reader = Lines(found.append, lambda *_: None)
    data = b"".join(line + b"\n" for line in lines)
    places = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    for start, end in zip(places, places[1:], strict=False):  # noqa: RUF007
        reader.feed(data[start:end])
    assert found == lines


def test_a_line_at_the_limit_is_read_and_one_byte_more_is_not() -> None:
    found: list[int] = []
    refused: list[int] = []
    reader = Lines(lambda line: found.append(len(line)), lambda _, size: refused.append(size))
    for size in (LONGEST, LONGEST + 1, 1):
        reader.feed(b"x" * size + b"\n")
    assert (found, refused) == ([LONGEST, 1], [LONGEST + 1])


@pytest.mark.parametrize(
    ("written", "cause"),
    [
        (r'answer_with(m, b"[" * 100000 + b"]" * 100000) + b"\n"', "too deep"),
        (r'answer_with(m, b"[" * 101 + b"]" * 101) + b"\n"', "too deep"),
        (r'answer_with(m, b"7" * 6000) + b"\n"', "too long"),
        (r'dump(m, result=None) + b"\n"', "result"),
        (r'dump(m, error="no") + b"\n"', "error"),
        (r'dump(m, result=body(), error={"code": 1, "message": "no"}) + b"\n"', "a result and an error"),
        (r'answer({"id": str(m["id"])}) + b"\n"', "answers '"),
        (r'answer({"id": 1.0 * m["id"]}) + b"\n"', "id"),
        (r'dump({"id": None}, error={"code": -32700, "message": "odd"}) + b"\n"', "odd"),
        (r'answer(m)[:-9] + b"\n"', "cut short"),
        (r'answer(m).replace(b":", b";", 3) + b"\n"', "no JSON"),
        (r'json.dumps(json.loads(answer(m)), indent=2).encode()[:-2] + b"\n"', "cut short"),
        (r'answer(m, FIVE_MB) + b"\n"', "result too large (5 MB), limit 4 MB"),
        (r'json.dumps({"result": body(FIVE_MB), "jsonrpc": "2.0", "id": m["id"]}).encode() + b"\n"', "too large"),
    ],
    ids=[
        "deep", "a little deep", "a long number", "no result", "an error that is none", "both", "the id as a text",
        "the id as a float", "an error for nobody", "cut short", "broken", "cut short over many lines", "too large",
        "too large with its id at the end",
    ],
)  # fmt: skip
def test_an_answer_that_cannot_be_used_fails_its_call_soon_and_alone(written: str, cause: str, tmp_path: Path) -> None:
    server = make_server(tmp_path, f"listen(lambda m: write({written}))")
    failed, second = talk(server, tmp_path, act_twice)
    assert (failed.code, second.text) == (UNUSABLE, "echo")
    assert cause in failed.text
    assert failed.seconds < SOON_S


def test_a_broken_answer_fails_the_call_that_it_names(tmp_path: Path) -> None:
    script = """
calls = []
def act(message):
    calls.append(message)
    if len(calls) == 2:
        write(answer(calls[1])[:-5] + b"\\n")
        time.sleep(0.5)
        write(answer(calls[0]) + b"\\n")
listen(act)
"""

    async def both(client: Client, _: Transport) -> list[str]:
        calls = [asyncio.create_task(call(client)), asyncio.create_task(call(client))]
        return [(await one).text for one in calls]

    first, second = talk(make_server(tmp_path, script), tmp_path, both)
    assert (first, second) == ("fine", "The answer cannot be used: it is cut short")


def test_a_call_that_was_stopped_is_not_waited_for(tmp_path: Path) -> None:
    script = r"""
calls = []
def act(message):
    calls.append(message)
    if len(calls) == 1:
        open("called", "w").close()
    else:
        write(b'{\"jsonrpc\": \"2.0\", \"result\": {broken}\n')
listen(act)
"""

    async def go(client: Client, _: Transport) -> Heard:
        stopped = asyncio.create_task(call(client))
        await wait_until((tmp_path / "called").exists)
        stopped.cancel()
        await asyncio.wait([stopped])
        return await call(client)

    heard = talk(make_server(tmp_path, script, cwd=str(tmp_path)), tmp_path, go)
    assert (heard.code, heard.text) == (UNUSABLE, "The answer cannot be used: it is no JSON")
    assert heard.seconds < SOON_S


@pytest.mark.parametrize(
    "arguments",
    [{"n": 10**5000}, {"s": "x" * (5 << 20)}],
    ids=["a long number", "5 MB"],
)
def test_arguments_that_cannot_be_sent_fail_their_call_alone(arguments: dict[str, Any], tmp_path: Path) -> None:
    async def go(client: Client, _: Transport) -> tuple[Heard, Heard]:
        return await call(client, **arguments), await call(client)

    failed, second = talk(make_server(tmp_path, "listen(reply)"), tmp_path, go)
    assert "cannot be sent" in failed.text and second.text == "fine"


def test_half_a_character_in_an_argument_is_sent_as_a_sign_for_it(tmp_path: Path) -> None:
    script = r'listen(lambda m: write(answer(m, m["params"]["arguments"]["s"]) + b"\n"))'

    async def go(client: Client, _: Transport) -> Heard:
        return await call(client, s="half: \ud83d")

    assert talk(make_server(tmp_path, script), tmp_path, go).text == "half: \ufffd"


def test_a_line_of_100_mb_is_refused_at_once_and_not_held(tmp_path: Path) -> None:
    script = """
def flood(message):
    start, _, end = answer(message, "@").partition(b"@")
    write(start)
    for _ in range(100):
        write(b"x" * (1 << 20))
    write(end + b"\\n")
listen(flood)
"""

    async def go(client: Client, _: Transport) -> tuple[Heard, Heard, float]:
        measure_peak()
        before = measure_peak()
        failed = await call(client)
        return failed, await call(client, "echo"), measure_peak() - before

    failed, second, growth_mb = talk(make_server(tmp_path, script), tmp_path, go)
    assert failed.text.endswith("result too large (100 MB), limit 4 MB")
    assert second.text == "echo"
    assert failed.seconds < 2 and growth_mb < 32


def measure_peak() -> float:
    """The most memory held since the last time, in MB (proc(5): clear_refs)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return peak / 1024


def test_brackets_on_many_lines_cost_little(tmp_path: Path) -> None:
    script = r'listen(lambda m: (write(b"[[\n" + b"]\n,[\n" * 30000), reply(m)))'
    heard = talk(make_server(tmp_path, script), tmp_path, act)
    assert heard.text == "fine" and heard.seconds < 2 * SOON_S


def test_a_server_whose_line_never_ends_is_ended(tmp_path: Path) -> None:
    script = 'listen(lambda m: [write(b"x" * (1 << 20)) for _ in iter(int, 1)])'
    heard, ended, _ = talk(make_server(tmp_path, script), tmp_path, act_and_see_the_end)
    assert (heard.code, ended) == (CLOSED, "sent more than 128 MB on one line")
    assert heard.seconds < 2


@pytest.mark.parametrize("kind", ["message", "progress", "tools/list_changed"])
def test_100_000_notifications_do_not_hold_up_the_answer_and_the_last_one_counts(kind: str, tmp_path: Path) -> None:
    script = f"""
def flood(message):
    token = message["params"].get("_meta", {{}}).get("progressToken")
    flood = b"".join(notify({kind!r}, level="info", data=n, progressToken=token, progress=n) for n in range(1000))
    for _ in range(100):
        write(flood)
    time.sleep(0.3)
    reply(message)
listen(flood)
"""
    heard: list[Any] = []

    async def go(client: Client, _: Transport) -> Heard:
        async def note(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
            heard.append(progress)

        begun = time.monotonic()
        await client.session.call_tool("act", {}, progress_callback=note)
        return Heard("", None, time.monotonic() - begun)

    took = talk(make_server(tmp_path, script), tmp_path, go)
    assert took.seconds < 5
    assert "only the newest of each kind" in read_log(tmp_path)
    if kind == "progress":
        assert heard[-1] == 999 and 50 <= len(heard) <= 550 * (1 + took.seconds)


def test_a_server_that_asks_too_much_is_refused_and_its_call_answered(tmp_path: Path) -> None:
    script = """
def ask(message):
    asked = [{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in range(1000)]
    write(*[json.dumps(one).encode() + b"\\n" for one in asked])
    refused = sum(read()["error"]["message"].startswith("Too many") for _ in asked)
    write(answer(message, str(refused)) + b"\\n")
listen(ask)
"""
    heard = talk(make_server(tmp_path, script), tmp_path, act)
    assert 900 < int(heard.text) < 1000


@pytest.mark.parametrize("newline", ["\\n", ""], ids=["lines", "no newline"])
def test_50_mb_of_standard_error_block_nothing_and_the_log_keeps_both_ends(newline: str, tmp_path: Path) -> None:
    script = f"""
def shout(message):
    os.write(2, b"first words\\n")
    for _ in range(50):
        sys.stderr.write(("x" * 1023 + "{newline}") * 1024)
    sys.stderr.write("last words")
    sys.stderr.flush()
    reply(message)
listen(shout)
"""
    heard = talk(make_server(tmp_path, script), tmp_path, act)
    assert heard.text == "fine" and heard.seconds < 2 * SOON_S
    log = read_log(tmp_path)
    assert log.startswith("first words") and log.endswith("last words") and "left out here" in log
    assert len(log) <= 1 << 20


@pytest.mark.parametrize(
    ("script", "ended", "code"),
    [
        ("listen(lambda m: os._exit(3))", "exited with 3", 3),
        ("listen(lambda m: os._exit(0))", "exited with 0", 0),
        ("listen(lambda m: os.kill(os.getpid(), signal.SIGSEGV))", "was ended by SIGSEGV", -11),
        ("listen(lambda m: (write(answer(m)[:20]), os._exit(7)))", "exited with 7", 7),
        ("listen(lambda m: (os.close(1), time.sleep(60)))", "closed its standard output", None),
        ("listen(lambda m: (os.fork() or time.sleep(60)) and os._exit(4))", "exited with 4", 4),
    ],
    ids=["exit", "exit with zero", "signal", "in a line", "closed output", "a child holds the pipe"],
)
def test_a_server_that_goes_away_in_a_call_fails_it_at_once_and_it_is_known_how(
    script: str, ended: str, code: int | None, tmp_path: Path
) -> None:
    heard, said, exit_code = talk(make_server(tmp_path, script), tmp_path, act_and_see_the_end)
    assert (heard.code, said, exit_code) == (CLOSED, ended, code)
    assert heard.seconds < SOON_S


def test_what_a_server_says_before_it_dies_counts(tmp_path: Path) -> None:
    script = """
import fcntl
for pipe in (1, 2):
    fcntl.fcntl(pipe, 1031, 1 << 20)  # F_SETPIPE_SZ: what it says last is then more than is read at once
def die(message):
    open("called", "w").close()
    time.sleep(0.1)
    os.write(2, b"x" * 900_000 + b"my last words")
    reply(message, "y" * 900_000)
    os._exit(3)
listen(die)
"""

    async def go(client: Client, transport: Transport) -> tuple[int, str, str]:
        calling = asyncio.create_task(call(client))
        await wait_until(lambda: (tmp_path / "called").exists())
        time.sleep(0.5)  # noqa: ASYNC251 - we are busy while it speaks and dies
        return len((await calling).text), transport.ended, read_log(tmp_path)[-13:]

    server = make_server(tmp_path, script, cwd=str(tmp_path))
    assert talk(server, tmp_path, go) == (900_000, "exited with 3", "my last words")


def test_a_server_that_closes_its_input_is_missed_at_the_next_call(tmp_path: Path) -> None:
    script = "listen(lambda m: (os.close(0), reply(m), time.sleep(60)))"

    async def go(client: Client, transport: Transport) -> tuple[str, Heard, str]:
        return (await call(client)).text, await call(client), transport.ended

    first, second, ended = talk(make_server(tmp_path, script), tmp_path, go)
    assert (first, second.code, ended) == ("fine", CLOSED, "closed its standard input")
    assert second.seconds < SOON_S


@pytest.mark.parametrize("size", [10, 1_000_000], ids=["a little", "more than a pipe holds"])
def test_a_server_that_neither_reads_nor_writes_is_ended(size: int, tmp_path: Path) -> None:
    code = 'listen(lambda m: (os.write(2, b"busy\\n"), time.sleep(60)))'
    server = make_server(tmp_path, code, timeout_s=0.3)

    async def go(client: Client, transport: Transport) -> tuple[str, list[int | None], float]:
        first = asyncio.create_task(call(client))
        await wait_until(lambda: read_log(tmp_path) == "busy\n")
        begun = time.monotonic()
        calls = await asyncio.gather(first, call(client, text="x" * size))
        return transport.ended, [one.code for one in calls], time.monotonic() - begun

    ended, codes, seconds = talk(server, tmp_path, go)
    assert (ended, codes) == ("did not read its input for 0.3 s", [CLOSED, CLOSED])
    assert seconds < 1 + SOON_S


def test_a_busy_server_that_reports_progress_is_not_ended(tmp_path: Path) -> None:
    script = """
def work(message):
    for _ in range(9):
        time.sleep(0.1)
        write(notify("message", level="info", data="busy"))
    reply(message)
listen(work)
"""

    async def go(client: Client, transport: Transport) -> tuple[list[str], str]:
        both = await asyncio.gather(call(client), call(client, "echo"))
        return [one.text for one in both], transport.ended

    assert talk(make_server(tmp_path, script, timeout_s=0.3), tmp_path, go) == (["fine", "echo"], "")


@pytest.mark.parametrize(
    "script",
    [
        "listen(tell())",
        "listen(tell()); time.sleep(60)",
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); listen(tell()); time.sleep(60)",
        "listen(lambda m: (tell()(m), os.kill(os.getpid(), signal.SIGSTOP)))",
        "child = os.fork() or time.sleep(60)\nlisten(tell(child))",
        "child = os.fork() or time.sleep(60)\nlisten(lambda m: (tell(child)(m), os._exit(1)))",
        "listen(tell(start_daemon()))",
        "daemon = start_daemon()\nlisten(lambda m: (tell(daemon)(m), os._exit(1)))",
    ],
    ids=[
        "polite", "ignores the end of its input", "ignores SIGTERM too", "stopped", "leaves a child",
        "leaves a child and dies", "leaves a daemon", "leaves a daemon and dies",
    ],
)  # fmt: skip
def test_no_process_of_a_server_is_left(script: str, tmp_path: Path) -> None:
    async def go(client: Client, _: Transport) -> tuple[list[int], float]:
        pids = [int(pid) for pid in (await call(client)).text.split()]
        assert pids
        return pids, time.monotonic()

    pids, left_at = talk(make_server(tmp_path, script), tmp_path, go)
    took = time.monotonic() - left_at
    assert [pid for pid in pids if is_there(pid)] == []
    assert took < 2 + SOON_S


def test_a_server_has_time_to_clean_up_when_its_input_ends(tmp_path: Path) -> None:
    script = 'listen(reply); time.sleep(0.4); open("tidy", "w").close()'
    talk(make_server(tmp_path, script, cwd=str(tmp_path)), tmp_path, act)
    assert (tmp_path / "tidy").exists()


def test_what_was_sent_last_still_reaches_the_server(tmp_path: Path) -> None:
    script = 'listen(lambda m: reply(m) if not m["params"]["arguments"] else open("told", "w").close())'

    async def go(client: Client, _: Transport) -> None:
        await call(client)
        telling = asyncio.create_task(call(client, tell=1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        telling.cancel()
        await asyncio.wait([telling])

    talk(make_server(tmp_path, script, cwd=str(tmp_path)), tmp_path, go)
    assert (tmp_path / "told").exists()


def test_a_client_that_is_cancelled_twice_while_it_leaves_leaves_nothing(tmp_path: Path) -> None:
    server = make_server(tmp_path, "listen(tell()); time.sleep(60)")
    pids: list[int] = []

    async def own() -> None:
        async with Client(open_transport(server, tmp_path / "log"), mode="2026-07-28") as client:
            pids.append(int((await call(client)).text))
            await asyncio.Event().wait()

    async def go() -> bool:
        task = asyncio.create_task(own())
        await wait_until(lambda: pids)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0.1)
        await asyncio.wait([task], timeout=5)
        return task.cancelled()

    assert asyncio.run(go())
    assert not is_there(pids[0])


def test_leaving_a_stubborn_server_under_a_cancelled_scope_costs_no_cpu(tmp_path: Path) -> None:
    server = make_server(tmp_path, "listen(reply); time.sleep(60)")

    async def go() -> None:
        with anyio.CancelScope() as scope:
            async with open_transport(server, tmp_path / "log"):
                scope.cancel()
                await asyncio.sleep(5)

    begun, used = time.monotonic(), time.process_time()
    asyncio.run(go())
    assert time.monotonic() - begun > 0.9
    assert time.process_time() - used < 0.5


def test_a_client_that_is_killed_leaves_no_server_and_no_child_behind(tmp_path: Path) -> None:
    script = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork() or time.sleep(60)
listen(tell(child, start_daemon()))
time.sleep(60)
"""
    server = make_server(tmp_path, script)
    client = f"""
import asyncio, sys
sys.path[:0] = {[str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]!r}
from pathlib import Path
from rkllm_chat.config import ServerConfig
from servers.talks import call, talk

async def stay(client, transport):
    print((await call(client)).text, flush=True)
    await asyncio.Event().wait()

talk(ServerConfig("small", command={server.command!r}, args={server.args!r}), Path({str(tmp_path)!r}), stay)
"""
    process = subprocess.Popen([sys.executable, "-c", client], stdout=subprocess.PIPE, encoding="utf-8")
    assert process.stdout
    pids = [int(pid) for pid in process.stdout.readline().split()]
    assert len(pids) == 3 and all(is_there(pid) for pid in pids)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    asyncio.run(wait_until(lambda: not any(is_there(pid) for pid in pids), "the end of the servers"))


def test_a_server_sees_little_of_our_environment_and_all_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "SECRET_KEY": "1",
        "LC_TIME": "C",
        "LANG": "C.UTF-8",
        "HOME": "/home/me",
        "TMPDIR": "/tmp",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SHELL", "() { :; }; echo a function")
    script = "listen(lambda m: reply(m, json.dumps(dict(os.environ))))"

    async def go(client: Client, _: Transport) -> dict[str, str]:
        seen: dict[str, str] = json.loads((await call(client)).text)
        return seen

    seen = talk(make_server(tmp_path, script, env={"OWN": "2", "HOME": "/elsewhere"}), tmp_path, go)
    kept = {name for name in os.environ if name in ("LOGNAME", "PATH", "TERM", "USER") or name.startswith("LC_")}
    assert set(seen) == {*kept, "LANG", "HOME", "TMPDIR", "OWN", MARK}
    assert (seen["OWN"], seen["HOME"], seen["LC_TIME"]) == ("2", "/elsewhere", "C")


def test_a_server_has_a_session_three_files_and_a_private_umask(tmp_path: Path) -> None:
    script = """
def look(message):
    files = [int(name) for name in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + name)]
    umask = os.umask(0)
    write(answer(message, f"{os.getsid(0) == os.getpid()} {sorted(files)} {umask:o}") + b"\\n")
listen(look)
"""
    with (tmp_path / "ours").open("w") as ours:
        os.set_inheritable(ours.fileno(), True)
        assert talk(make_server(tmp_path, script), tmp_path, act).text == "True [0, 1, 2] 77"


def test_a_server_runs_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    script = "listen(lambda m: reply(m, os.getcwd()))"
    assert talk(make_server(tmp_path, script, cwd=str(tmp_path / "there")), tmp_path, act).text == str(
        tmp_path / "there"
    )


def make_file(folder: Path, name: str, text: str, mode: int) -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize(
    ("make_command", "cause"),
    [
        (lambda folder: "no-such-command", "cannot be found"),  # noqa: ARG005
        (lambda folder: f"{folder}/missing", "cannot be found"),
        (lambda folder: str(folder), "is a folder"),
        (lambda folder: make_file(folder, "plain.txt", "", 0o644), "is not executable"),
        (lambda folder: make_file(folder, "odd", "\x7fELF and nothing more", 0o755), "Exec format error"),
        (lambda folder: make_file(folder, "script", "#!/no/such/program\n", 0o755), "No such file"),
    ],
    ids=["no command", "no file", "a folder", "a text", "another machine's", "no interpreter"],
)
def test_a_command_that_cannot_be_started_says_why_at_once(make_command: Any, cause: str, tmp_path: Path) -> None:
    server = ServerConfig("bad", command=make_command(tmp_path))
    begun = time.monotonic()
    with pytest.raises(ConnectError, match=cause) as caught:
        talk(server, tmp_path, act)
    assert '"bad"' in caught.value.message
    assert time.monotonic() - begun < SOON_S


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match=f"no folder {tmp_path}/missing"):
        talk(make_server(tmp_path, "", cwd=f"{tmp_path}/missing"), tmp_path, act)


def test_our_own_command_is_this_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    server = ServerConfig("board", command="rkllm-chat", args=("serve", "board"))

    async def go(client: Client, _: Transport) -> str:
        return (await call(client, "calculate", expression="6 * 7")).text

    assert talk(server, tmp_path, go, "auto") == "6 * 7 = 42"


def test_the_log_is_private_and_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "mine").write_text("precious", encoding="utf-8")
    (tmp_path / "logs/server.log").symlink_to(tmp_path / "mine")
    talk(make_server(tmp_path, r'listen(lambda m: write(b"odd\n" + answer(m) + b"\n"))'), tmp_path, act)
    log = tmp_path / "logs/server.log"
    assert (tmp_path / "mine").read_text(encoding="utf-8") == "precious"
    assert (log.is_symlink(), stat.S_IMODE(log.stat().st_mode)) == (False, 0o600)
    assert "odd" in read_log(tmp_path)


def test_the_folder_of_the_log_is_private(tmp_path: Path) -> None:
    talk(make_server(tmp_path, "listen(reply)"), tmp_path, act)
    assert stat.S_IMODE((tmp_path / "logs").stat().st_mode) == 0o700


def test_a_log_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file", encoding="utf-8")
    assert talk(make_server(tmp_path, "listen(reply)"), tmp_path, act).text == "fine"
