"""The stdio transport with real processes: odd output, ways to fail, and that no process is left behind."""

from __future__ import annotations

import asyncio
import stat
import time
from pathlib import Path

import anyio
import pytest

from cpu_time import allow_s
from processes import is_there
from rkllm_chat.mcp_client.client import Client
from rkllm_chat.mcp_client.transports.base import Transport
from rkllm_chat.mcp_client.transports.registry import make_transport

from .faults import wait_for
from .talks import ENDED, Heard, call, make_client, make_server, read_log, talk


async def act(client: Client, _: Transport) -> Heard:
    return await call(client)


def test_a_last_answer_without_a_newline_is_read(tmp_path: Path) -> None:
    script = "listen(lambda m: (write(answer(m)), os._exit(0)))"
    assert talk(make_server(tmp_path, script), tmp_path, act).text == "fine"


def test_the_log_keeps_both_ends_of_standard_error(tmp_path: Path) -> None:
    script = """
def shout(message):
    os.write(2, b"first words" + b"x" * (2 << 20) + b"last words")
    reply(message)
listen(shout)
"""
    assert talk(make_server(tmp_path, script), tmp_path, act).text == "fine"
    log = read_log(tmp_path)
    assert log.startswith("first words") and log.endswith("last words") and "omitted here" in log
    assert len(log) <= 1 << 20


@pytest.mark.proc
def test_output_before_the_exit_is_read(tmp_path: Path) -> None:
    script = """
import fcntl
for pipe in (1, 2):
    fcntl.fcntl(pipe, 1031, 1 << 20)  # F_SETPIPE_SZ: what is written last is then more than is read at once
def die(message):
    open("called", "w").write(str(os.getpid()))
    while not os.path.exists("may die"):
        pass
    os.write(2, b"x" * 900_000 + b"my last words")
    reply(message, "y" * 900_000)
    os._exit(3)
listen(die)
"""

    async def go(client: Client, transport: Transport) -> tuple[int, str, str]:
        calling = asyncio.create_task(call(client))
        await wait_for(lambda: (tmp_path / "called").exists() and (tmp_path / "called").read_text())
        pid = (tmp_path / "called").read_text(encoding="ascii")
        (tmp_path / "may die").touch()
        while not is_zombie(pid):
            pass  # this side reads nothing while the server writes and ends
        return len((await calling).text), transport.end_reason, read_log(tmp_path)[-13:]

    server = make_server(tmp_path, script, cwd=str(tmp_path))
    assert talk(server, tmp_path, go) == (900_000, "exited with 3", "my last words")


def is_zombie(pid: str) -> bool:
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z"


@pytest.mark.slow
def test_a_server_that_closes_its_input_is_noticed_at_the_next_call(tmp_path: Path) -> None:
    script = "listen(lambda m: (os.close(0), reply(m), time.sleep(60)))"

    async def go(client: Client, transport: Transport) -> tuple[str, Heard, str]:
        return (await call(client)).text, await call(client), transport.end_reason

    first, second, ended = talk(make_server(tmp_path, script), tmp_path, go)
    assert (first, second.text, ended) == ("fine", ENDED, "closed its standard input")
    assert second.seconds < allow_s(0.5)


@pytest.mark.slow
@pytest.mark.parametrize("size", [10, 1_000_000], ids=["a little", "more than a pipe holds"])
def test_a_server_that_neither_reads_nor_writes_is_ended(size: int, tmp_path: Path) -> None:
    code = 'listen(lambda m: (os.write(2, b"busy\\n"), time.sleep(60)))'

    async def go(client: Client, transport: Transport) -> tuple[str, list[str]]:
        first = asyncio.create_task(call(client))
        await wait_for(lambda: read_log(tmp_path) == "busy\n")
        calls = await asyncio.gather(first, call(client, text="x" * size))
        assert calls[1].seconds < 1 + allow_s(0.5)
        return transport.end_reason, [call.text for call in calls]

    ended = talk(make_server(tmp_path, code, timeout_s=0.3), tmp_path, go)
    assert ended == ("did not read its input for 0.3 s", [ENDED, ENDED])


def test_a_busy_server_that_writes_is_not_ended(tmp_path: Path) -> None:
    script = """
def work(message):
    for _ in range(5):
        time.sleep(0.1)
        write(notify("message", level="info", data="busy"))
    reply(message)
listen(work)
"""

    async def go(client: Client, transport: Transport) -> tuple[list[str], str]:
        both = await asyncio.gather(call(client), call(client, "echo"))
        return [result.text for result in both], transport.end_reason

    assert talk(make_server(tmp_path, script, timeout_s=0.2), tmp_path, go) == (["fine", "echo"], "")


def test_a_server_has_time_to_clean_up_when_its_input_ends(tmp_path: Path) -> None:
    script = 'listen(reply); time.sleep(0.4); open("tidy", "w").close()'
    talk(make_server(tmp_path, script, cwd=str(tmp_path)), tmp_path, act)
    assert (tmp_path / "tidy").exists()


def test_the_last_message_still_reaches_the_server(tmp_path: Path) -> None:
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


@pytest.mark.slow
def test_a_client_that_is_cancelled_twice_while_it_leaves_leaves_nothing(tmp_path: Path) -> None:
    server = make_server(tmp_path, "listen(tell()); time.sleep(60)")
    pids: list[int] = []

    async def own() -> None:
        async with make_transport(server, tmp_path / "log") as driver:
            client = make_client(driver)
            pids.append(int((await call(client)).text))
            await asyncio.Event().wait()

    async def go() -> bool:
        task = asyncio.create_task(own())
        await wait_for(lambda: pids)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0.1)
        await asyncio.wait([task], timeout=5)
        return task.cancelled()

    assert asyncio.run(go())
    assert not is_there(pids[0])


@pytest.mark.slow
def test_leaving_a_stubborn_server_under_a_cancelled_scope_costs_no_cpu(tmp_path: Path) -> None:
    server = make_server(tmp_path, "listen(reply); time.sleep(60)")

    async def go() -> None:
        with anyio.CancelScope() as scope:
            async with make_transport(server, tmp_path / "log"):
                scope.cancel()
                await asyncio.sleep(5)

    begun, used = time.monotonic(), time.process_time()
    asyncio.run(go())
    assert time.monotonic() - begun > 0.9
    assert time.process_time() - used < 0.5


def test_the_log_names_a_stray_once_and_is_private_and_no_link_is_followed(tmp_path: Path) -> None:
    script = r'listen(lambda m: write(b"stray one\nstray two\n" + answer(m) + b"\n"))'
    talk(make_server(tmp_path, script), tmp_path, act)
    log = tmp_path / "logs/server.log"
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700
    (tmp_path / "mine").write_text("precious", encoding="utf-8")
    log.unlink()
    log.symlink_to(tmp_path / "mine")
    talk(make_server(tmp_path, script), tmp_path, act)
    assert (tmp_path / "mine").read_text(encoding="utf-8") == "precious"
    assert (log.is_symlink(), stat.S_IMODE(log.stat().st_mode)) == (False, 0o600)
    assert read_log(tmp_path) == "[rkllm-chat] Ignored: it is not a JSON object or array: b'stray one'\n"


def test_a_server_works_without_a_log_where_none_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file", encoding="utf-8")
    assert talk(make_server(tmp_path, "listen(reply)"), tmp_path, act).text == "fine"
