"""Commands about what servers offer besides tools: resources to read, prompts to send."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from .. import attach
from ..clean import reveal
from ..desk import Desk
from ..errors import ChatError, UsageError
from ..events import Notice, Page, Table
from ..foreign import disarm
from ..messages import Message
from . import Stream, command

if TYPE_CHECKING:
    from mcp_types import Prompt

    from ..servers.toolbox import Toolbox


@command("/resources", usage="[SERVER]")
async def show_resources(desk: Desk, argument: str) -> Stream:
    box = servers_of(desk)
    rows = [
        (server, str(one.uri), one.title or one.description or one.name, one.mime_type or "", str(one.size or ""))
        for server, one in await box.list_resources(argument or None)
    ]
    rows += [
        (server, one.uri_template, one.title or one.description or one.name, one.mime_type or "", "")
        for server, one in await box.list_templates(argument or None)
    ]
    yield Table((), tuple(rows)) if rows else Notice(desk.words("resources.none"))


async def suggest_resources(desk: Desk, _typed: str) -> Sequence[str]:
    return [str(one.uri) for _, one in await servers_of(desk).list_resources()]


@command("/resource", usage="URI", suggest=suggest_resources)
async def take_resource(desk: Desk, argument: str) -> Stream:
    """Puts a resource or a file into the next message."""
    if not argument:
        raise UsageError("Which resource?", "/resources lists them.")
    found = await attach.fetch(desk, argument)
    desk.attached.append(found)
    yield Notice(attach.describe(desk, found))
    yield Notice(desk.words("resources.next"))


@command("/prompts", usage="[SERVER]")
async def show_prompts(desk: Desk, argument: str) -> Stream:
    rows = [
        (server, one.name, usage_of(one), one.title or one.description or "")
        for server, one in await servers_of(desk).list_prompts(argument or None)
    ]
    yield Table((), tuple(rows)) if rows else Notice(desk.words("prompts.none"))


def usage_of(prompt: Prompt) -> str:
    arguments = prompt.arguments or []
    return " ".join(f"{one.name}=" if one.required else f"[{one.name}=]" for one in arguments)


async def suggest_prompt(desk: Desk, typed: str) -> Sequence[str]:
    name, blank, rest = typed.partition(" ")
    prompts = await servers_of(desk).list_prompts()
    if not blank:
        return [one.name for _, one in prompts]
    found = [(server, one) for server, one in prompts if one.name == name]
    if not found:
        return []
    server, prompt = found[0]
    key, equals, value = rest.rpartition(" ")[2].partition("=")
    if not equals:
        return [f"{one.name}=" for one in prompt.arguments or []]
    return [f"{key}={shlex.quote(one)}" for one in await complete(desk, server, name, key, value, {})]


@command("/prompt", usage="NAME [argument=value ...]", suggest=suggest_prompt)
async def send_prompt(desk: Desk, argument: str) -> Stream:
    """Asks for what is missing, shows what will be sent, and sends it as the server gave it."""
    try:
        name, *words = shlex.split(argument)
    except ValueError as error:
        what = f"The arguments cannot be read: {error}." if argument else "Which prompt?"
        raise UsageError(what, "/prompts lists them.") from None
    server, prompt = await find_prompt(desk, name)
    given = await ask_missing(desk, server, prompt, read_given(prompt, words))
    if given is None:
        return
    answer = await servers_of(desk).get_prompt(server, prompt.name, given)
    yield Notice(desk.words("prompts.using", name=prompt.name, server=server))
    messages = [Message(one.role, disarm(text_of(one.content))) for one in answer.messages]
    yield Page(reveal("\n".join(f"{one.role}: {text_of(one.content)}" for one in answer.messages)))
    if desk.person is None or not await desk.person.agree(desk.words("prompts.send")):
        return
    async with aclosing(desk.chat.answer(messages)) as turn:
        async for event in turn:
            yield event


async def find_prompt(desk: Desk, name: str) -> tuple[str, Prompt]:
    """The prompt of a name, which may have its server before it as tools do. Raises UsageError."""
    prompts = await servers_of(desk).list_prompts()
    found = [(server, one) for server, one in prompts if name in (one.name, f"{server}__{one.name}")]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(f"{server}__{one.name}" for server, one in found or prompts)
    what = f'Several servers have "{name}".' if found else f'There is no prompt "{name}".'
    raise UsageError(what, f"There are {listed}." if listed else "")


def read_given(prompt: Prompt, words: Sequence[str]) -> dict[str, str]:
    known = [one.name for one in prompt.arguments or []]
    given: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in known:
            hint = f"It takes {', '.join(known)}." if known else "It takes none."
            raise UsageError(f'"{word}" is no argument of {prompt.name}.', hint)
        if key in given:
            raise UsageError(f"{key} is given twice.", "Write it once.")
        given[key] = value
    return given


async def ask_missing(desk: Desk, server: str, prompt: Prompt, given: dict[str, str]) -> dict[str, str] | None:
    """The arguments with those that are needed and were not given; None when the person gives up."""
    for one in prompt.arguments or []:
        if one.name in given or not one.required:
            continue
        if desk.person is None:
            raise UsageError(f"{prompt.name} needs {one.name}.", f"Write {one.name}=value.")
        choices = await complete(desk, server, prompt.name, one.name, "", given)
        about = f" ({one.description})" if one.description else ""
        answer = await desk.person.read(f"{one.name}{about}: ", "", choices)
        if not answer:
            return None
        given = {**given, one.name: answer}
    return given


async def complete(
    desk: Desk, server: str, prompt: str, argument: str, value: str, given: Mapping[str, str]
) -> Sequence[str]:
    """What the server suggests; nothing where it does not know how."""
    from mcp_types import PromptReference

    reference = PromptReference(type="ref/prompt", name=prompt)
    try:
        answer = await servers_of(desk).complete(server, reference, argument, value, given)
    except ChatError:
        return []
    return answer.completion.values


def text_of(content: Any) -> str:
    from ..servers.content import read_block

    return read_block(content)


def servers_of(desk: Desk) -> Toolbox:
    """The servers of the sitting. Raises UsageError where there are none."""
    if desk.servers is None:
        raise UsageError("There are no servers.")
    return desk.servers
