"""Nothing hangs: whenever a server falls silent, every door of the toolbox gives or raises within its limit."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from mcp_types import PromptReference

from rkllm_chat.config import ServerConfig
from rkllm_chat.errors import ChatError
from rkllm_chat.messages import Tool
from rkllm_chat.servers.toolbox import Toolbox

from .chaos_http import open_site, serving
from .chaos_silence import NO_START, SILENT_AT, URI
from .chaos_silence_web import DeafEventSite, SilentSite, StayingExchange
from .chaos_sse import open_event_site
from .chaos_websocket import open_exchange
from .faults import chaos, left_behind

TIMEOUT_S = 0.4
START_S, NO_START_S = 8.0, 1.5
OPEN_S, DOOR_S, CLOSE_S = 20.0, 40.0, 15.0
"""In which all must be done: a door may have to wait for a check of five seconds, a start that was put off for five,
and ten for a list; a start that failed is ended in three seconds, as is a server."""

Door = Callable[[Toolbox, str], Awaitable[object]]


def act(box: Toolbox, server: str) -> Awaitable[object]:
    """Calls the tool as it was listed, where it was."""
    listed = (tool for tool in box.tools if (tool.server, tool.name) == (server, "act"))
    return box.call(next(listed, Tool("act", "", {}, server)), {}, lambda *_: None)


DOORS: dict[str, Door] = {
    "open": lambda box, _: box.open(),
    "call": act,
    "execute_tool": lambda box, server: box.execute_tool(server, "act"),
    "list_tools": lambda box, server: box.list_tools(server),
    "list_resources": lambda box, server: box.list_resources(server),
    "list_templates": lambda box, server: box.list_templates(server),
    "list_prompts": lambda box, server: box.list_prompts(server),
    "read_resource": lambda box, server: box.read_resource(URI, server),
    "read_text": lambda box, _: box.read_text(URI),
    "complete_uri": lambda box, _: box.complete_uri(URI),
    "get_prompt": lambda box, server: box.get_prompt(server, "greet"),
    "complete": lambda box, server: box.complete(server, PromptReference(name="greet"), "name", "o"),
    "subscribe": lambda box, server: box.subscribe(server, URI),
}
LATER: dict[str, Door] = {
    "restart": lambda box, server: box.restart(server),
    "log_in": lambda box, server: box.log_in(server),
    "forget_login": lambda box, server: box.forget_login(server),
}
OF_ALL = {"apply", "aclose", "close"}


def test_every_door_of_the_toolbox_is_tried() -> None:
    doors = {name for name, _ in inspect.getmembers(Toolbox, inspect.iscoroutinefunction) if name[0] != "_"}
    assert doors == {*DOORS, *LATER, *OF_ALL}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("era", SILENT_AT)
def test_no_door_hangs_on_a_process_that_falls_silent(era: str, tmp_path: Path) -> None:
    modes = {f"{manner}-{moment}": moment in NO_START for manner in ("mute", "frozen") for moment in SILENT_AT[era]}
    modes |= {f"tired-{moment}": False for moment in ("resources/list", "resources/templates/list")}
    limits = {mode: NO_START_S if is_lost else START_S for mode, is_lost in modes.items()}
    configs = [
        chaos(tmp_path, mode, mode.replace("/", "."), eras=era, timeout_s=TIMEOUT_S, connect_s=limit)
        for mode, limit in limits.items()
    ]
    try:
        assert "\n".join(asyncio.run(try_doors(configs, tmp_path))) == ""
    finally:
        left = [pid for config in configs for pid in left_behind(tmp_path, config.name)]
    assert left == []


@pytest.mark.timeout(180)
def test_no_door_hangs_on_a_url_that_falls_silent(tmp_path: Path) -> None:
    with silent_urls() as configs:
        assert "\n".join(asyncio.run(try_doors(configs, tmp_path))) == ""


@contextmanager
def silent_urls() -> Iterator[list[ServerConfig]]:
    with ExitStack() as stack:
        moments = ("start-silent", "start-headers", "start-body", "start-dribble")
        answers = ("call-silent", "call-headers", "call-body", "call-chunk", "call-dribble", "call-open-event")
        urls = {
            **{(f"http-{mode}", "http"): stack.enter_context(open_site(mode)).url for mode in (*moments, *answers)},
            **{(f"any-{mode}", ""): stack.enter_context(open_site(mode)).url for mode in moments},
            **{
                (f"http-{verb}", "http"): stack.enter_context(serving(SilentSite(verb))).url
                for verb in ("GET", "DELETE")
            },
            ("sse-GET", "sse"): stack.enter_context(serving(SilentSite("GET"))).url,
            ("sse-POST", "sse"): stack.enter_context(serving(DeafEventSite())).url,
            ("websocket-close", ""): stack.enter_context(serving(StayingExchange())).url,
        }
        for mode in ("start-nowhere", "call-silent"):
            urls[f"sse-{mode}", "sse"] = stack.enter_context(open_event_site(mode)).url
        for mode in ("start-silent", "call-silent"):
            urls[f"websocket-{mode}", ""] = stack.enter_context(open_exchange(mode)).url
        yield [
            ServerConfig(name, url=url, transport=transport, timeout_s=TIMEOUT_S, connect_s=NO_START_S)
            for (name, transport), url in urls.items()
        ]


async def try_doors(configs: list[ServerConfig], folder: Path) -> list[str]:
    """The doors that hang, or raise what is no error of ours; each is tried on each server, all side by side."""
    box = Toolbox(configs, folder / "logs")
    names = [config.name for config in configs]
    found = await judge({"open": box.open()}, OPEN_S)
    found += [
        f"{config.name} is not open"
        for config in configs
        if config.connect_s == START_S and not box.is_connected(config.name)
    ]
    found += await judge(
        {f"{door} {name}": enter(box, name) for door, enter in DOORS.items() for name in names}, DOOR_S
    )
    changed = [replace(config, timeout_s=2 * TIMEOUT_S) for config in configs[::2]] + configs[1::2]
    ends = {
        f"{door} {name}": enter(box, name)
        for number, (door, enter) in enumerate(LATER.items())
        for name in names[1::2][number :: len(LATER)]
    }
    found += await judge({**ends, "apply": box.apply(changed)}, CLOSE_S + OPEN_S)
    found += await judge({"aclose": box.aclose()}, CLOSE_S)
    return found + [f"left: {task.get_name()}" for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def judge(waits: dict[str, Awaitable[object]], limit_s: float) -> list[str]:
    """The names of those that hang, or raise what is no error of ours."""
    tasks = {asyncio.ensure_future(wait): name for name, wait in waits.items()}
    done, hanging = await asyncio.wait(tasks, timeout=limit_s)
    odd = [
        f"{tasks[task]}: {task.exception()!r}" for task in done if not isinstance(task.exception(), ChatError | None)
    ]
    return sorted([*odd, *(f"{tasks[task]} hangs" for task in hanging)])
