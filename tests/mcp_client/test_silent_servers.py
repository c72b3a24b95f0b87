"""Whenever a server falls silent, every method of the toolbox returns or raises within its limit."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from mcp_types import PromptReference

from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.core.errors import ChatError
from rkllm_chat.core.messages import Tool
from rkllm_chat.core.skills import Skill, SkillFile
from rkllm_chat.mcp_client.toolbox import Toolbox

from .chaos_http import open_site
from .chaos_silence import NO_START, SILENT_AT, URI
from .chaos_sse import open_event_site
from .chaos_websocket import open_exchange
from .faults import chaos, left_behind

TIMEOUT_S = 0.3
START_S, NO_START_S = 5.0, 1.0
OPEN_S, METHOD_S, CLOSE_S = 15.0, 30.0, 15.0
"""In which all must be done: a method may have to wait for a check of two seconds, a start that was put off for five,
and START_S for a list; a start that failed is ended in three seconds, as is a server."""

Method = Callable[[Toolbox, str], Awaitable[object]]


def call(toolbox: Toolbox, server: str) -> Awaitable[object]:
    """Calls the tool as it was listed, where it was."""
    listed = (tool for tool in toolbox.tools if (tool.server, tool.name) == (server, "act"))
    return toolbox.call(next(listed, Tool("act", "", {}, server)), {}, lambda *_: None)


METHODS: dict[str, Method] = {
    "open": lambda toolbox, _: toolbox.open(),
    "call": call,
    "execute_tool": lambda toolbox, server: toolbox.execute_tool(server, "act"),
    "list_tools": lambda toolbox, server: toolbox.list_tools(server),
    "list_resources": lambda toolbox, server: toolbox.list_resources(server),
    "list_templates": lambda toolbox, server: toolbox.list_templates(server),
    "list_prompts": lambda toolbox, server: toolbox.list_prompts(server),
    "read_resource": lambda toolbox, server: toolbox.read_resource(URI, server),
    "find_resource_server": lambda toolbox, _: toolbox.find_resource_server(URI),
    "read_attachment": lambda toolbox, _: toolbox.read_attachment(URI),
    "complete_uri": lambda toolbox, _: toolbox.complete_uri(URI),
    "get_prompt": lambda toolbox, server: toolbox.get_prompt(server, "greet"),
    "complete": lambda toolbox, server: toolbox.complete(server, PromptReference(name="greet"), "name", "o"),
    "subscribe": lambda toolbox, server: toolbox.subscribe(server, URI),
    "unsubscribe": lambda toolbox, server: toolbox.unsubscribe(server, URI),
    "find_skills": lambda toolbox, _: toolbox.find_skills(URI),
    "read_skill": lambda toolbox, server: toolbox.read_skill(
        Skill(URI, "one", "", server, {URI: SkillFile("sha256:", 1)})
    ),
}
LATER: dict[str, Method] = {
    "restart": lambda toolbox, server: toolbox.restart(server),
    "log_in": lambda toolbox, server: toolbox.log_in(server),
    "forget_login": lambda toolbox, server: toolbox.forget_login(server),
}
OF_ALL = {"apply_config", "aclose", "close"}

# Era -> the kinds of message at which a server of it falls silent (mute), stops (frozen), or does from the second on.
SILENT = {
    "handshake": [
        *(f"mute-{moment}" for moment in SILENT_AT["handshake"]),
        *(f"frozen-{moment}" for moment in ("initialize", "tools/call", "prompts/get", "eof")),
        "tired-resources/list",
    ],
    "modern": [
        *(f"mute-{moment}" for moment in ("server/discover", "subscriptions/listen", "tools/call")),
        *(f"frozen-{moment}" for moment in ("subscriptions/listen", "tools/call", "resources/read")),
    ],
}


def test_every_coroutine_of_the_toolbox_is_tried() -> None:
    names = {name for name, _ in inspect.getmembers(Toolbox, inspect.iscoroutinefunction) if name[0] != "_"}
    assert names == {*METHODS, *LATER, *OF_ALL}


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_no_method_hangs_on_a_process_that_falls_silent(tmp_path: Path) -> None:
    configs = [
        chaos(
            tmp_path,
            mode,
            f"{era}-{mode.replace('/', '.')}",
            eras=era,
            timeout_s=TIMEOUT_S,
            connect_s=NO_START_S if mode.partition("-")[2] in NO_START and "tired" not in mode else START_S,
        )
        for era, modes in SILENT.items()
        for mode in modes
    ]
    try:
        assert "\n".join(asyncio.run(try_methods(configs, tmp_path))) == ""
    finally:
        left = [pid for config in configs for pid in left_behind(tmp_path, config.name)]
    assert left == []


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_no_method_hangs_on_a_url_that_falls_silent(tmp_path: Path) -> None:
    with silent_urls() as configs:
        assert "\n".join(asyncio.run(try_methods(configs, tmp_path))) == ""


@contextmanager
def silent_urls() -> Iterator[list[ServerConfig]]:
    with ExitStack() as stack:
        moments = ("start-silent", "start-headers", "start-body", "start-dribble")
        answers = ("call-silent", "call-headers", "call-body", "call-chunk", "call-dribble", "call-open-event")
        urls = {
            **{(f"http-{mode}", "http"): stack.enter_context(open_site(mode)).url for mode in (*moments, *answers)},
            ("any-start-silent", ""): stack.enter_context(open_site("start-silent")).url,
        }
        for kind, mode in (("http", "silent-GET"), ("http", "silent-DELETE"), ("sse", "silent-GET")):
            urls[f"{kind}-{mode}", kind] = stack.enter_context(open_site(mode, eras="handshake")).url
        for mode in ("start-nowhere", "call-silent", "call-deaf"):
            urls[f"sse-{mode}", "sse"] = stack.enter_context(open_event_site(mode)).url
        for mode in ("start-silent", "call-silent", "close-silent"):
            urls[f"websocket-{mode}", ""] = stack.enter_context(open_exchange(mode)).url
        yield [
            ServerConfig(name, url=url, transport=transport, timeout_s=TIMEOUT_S, connect_s=NO_START_S)
            for (name, transport), url in urls.items()
        ]


async def try_methods(configs: list[ServerConfig], folder: Path) -> list[str]:
    """Call each method on each server, all at once; gives those that hang or raise what is no error of ours."""
    toolbox = Toolbox(configs, folder / "logs")
    names = [config.name for config in configs]
    found = await judge({"open": toolbox.open()}, OPEN_S)
    found += [
        f"{config.name} is not open"
        for config in configs
        if config.connect_s == START_S and not toolbox.is_connected(config.name)
    ]
    found += await judge(
        {f"{method} {name}": act(toolbox, name) for method, act in METHODS.items() for name in names}, METHOD_S
    )
    changed = [replace(config, timeout_s=2 * TIMEOUT_S) for config in configs[::2]] + configs[1::2]
    ends = {
        f"{method} {name}": act(toolbox, name)
        for number, (method, act) in enumerate(LATER.items())
        for name in names[1::2][number :: len(LATER)]
    }
    found += await judge({**ends, "apply_config": toolbox.apply_config(changed)}, CLOSE_S + OPEN_S)
    found += await judge({"aclose": toolbox.aclose()}, CLOSE_S)
    return found + [f"left: {task.get_name()}" for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def judge(waits: dict[str, Awaitable[object]], limit_s: float) -> list[str]:
    """The names of those that hang, or raise what is no error of ours."""
    tasks = {asyncio.ensure_future(wait): name for name, wait in waits.items()}
    done, hanging = await asyncio.wait(tasks, timeout=limit_s)
    odd = [
        f"{tasks[task]}: {task.exception()!r}" for task in done if not isinstance(task.exception(), ChatError | None)
    ]
    return sorted([*odd, *(f"{tasks[task]} hangs" for task in hanging)])
