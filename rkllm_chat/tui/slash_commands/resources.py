"""Commands for the resources and prompts of MCP servers."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...chat import attachments as attach
from ...chat.app import App
from ...chat.event_stream import Emit, emit_all
from ...chat.turn import Turn
from ...core.errors import ChatError, UsageError
from ...core.events import Event, Notice, Page, Table
from ...core.i18n import Words
from ...core.messages import NOT_SHOWN, MediaKind, Message
from ...core.sanitize import escape_visibly, sanitize_line
from ...prompt.compose import show_media
from ...prompt.untrusted_text import neutralize
from .registry import SOURCES, Command, CommandSource, RunCommand, command, parse_words

if TYPE_CHECKING:
    from mcp_types import Prompt, PromptMessage

    from ...mcp_client.toolbox import Toolbox


async def _suggest_resource_actions(app: App, typed: str) -> Sequence[str]:
    """Return the actions of /resources, and their URIs."""
    action, blank, _ = typed.partition(" ")
    if not blank:
        return list(_RESOURCE_ACTIONS)
    watched = [uri for _, uri in _servers_of(app).subscriptions]
    return watched if action == "unwatch" else await suggest_resources(app, typed)


@command(
    "/resources",
    usage="[SERVER | watch [URI] | unwatch URI]",
    example="/resources board",
    suggest=_suggest_resource_actions,
)
async def show_resources(app: App, argument: str, emit: Emit) -> None:
    """List MCP resources, or announce changes of one."""
    from ...mcp_client.content import is_for_user

    servers = _servers_of(app)
    action, _, uri = argument.partition(" ")
    if action in _RESOURCE_ACTIONS:
        await _RESOURCE_ACTIONS[action](app, uri.strip(), emit)
        return
    found: list[tuple[str, str, str, Any]] = [
        (server, str(resource.uri), str(resource.size or ""), resource)
        for server, resource in await servers.list_resources(argument or None)
    ]
    found += [
        (server, template.uri_template, "", template)
        for server, template in await servers.list_templates(argument or None)
    ]
    rows = [
        (server, uri, entry.title or entry.description or entry.name, entry.mime_type or "", size)
        for server, uri, size, entry in found
        if is_for_user(entry)
    ]
    await emit(Table((), tuple(rows)) if rows else Notice(app.words("resources.none")))


async def suggest_resources(app: App, _typed: str) -> Sequence[str]:
    """Return the URIs of all resources."""
    return [str(resource.uri) for _, resource in await app.servers.list_resources()]


async def _watch_resource(app: App, argument: str, emit: Emit) -> None:
    """Announce changes of a resource from now on; without a URI, list the resources that are watched."""
    if not argument:
        watched = _servers_of(app).subscriptions
        await emit(Table((), tuple(watched)) if watched else Notice(app.words("resources.none_watched")))
        return
    servers, server = await attach.find_owner(app, argument)
    await servers.subscribe(server, argument)
    await emit(Notice(app.words("resources.watched", server=server, uri=argument)))


async def _unwatch_resource(app: App, argument: str, emit: Emit) -> None:
    """Announce changes of a resource no more."""
    servers = _servers_of(app)
    owners = [server for server, uri in servers.subscriptions if uri == argument]
    if not owners:
        raise UsageError(f"{argument or 'Nothing'} is not watched.", "/resources watch lists the resources that are.")
    for server in owners:
        await servers.unsubscribe(server, argument)
    await emit(Notice(app.words("resources.unwatched", uri=argument)))


_RESOURCE_ACTIONS: dict[str, RunCommand] = {"watch": _watch_resource, "unwatch": _unwatch_resource}


def _list_prompts(prompts: Sequence[tuple[str, Prompt]], words: Words) -> Event:
    """Return a table of the prompts of servers."""
    rows = [
        (server, prompt.name, format_usage(prompt), prompt.title or prompt.description or "")
        for server, prompt in prompts
    ]
    return Table((), tuple(rows)) if rows else Notice(words("prompts.none"))


def format_usage(prompt: Prompt) -> str:
    """Return the arguments of a prompt; optional ones in brackets."""
    arguments = prompt.arguments or []
    return " ".join(f"{argument.name}=" if argument.required else f"[{argument.name}=]" for argument in arguments)


async def _suggest_prompt(app: App, typed: str) -> Sequence[str]:
    """Return completions for prompt names, argument names and argument values."""
    name, blank, rest = typed.partition(" ")
    prompts = await _servers_of(app).list_prompts()
    if not blank:
        return [prompt.name for _, prompt in prompts]
    matches = [(server, prompt) for server, prompt in prompts if prompt.name == name]
    if not matches:
        return []
    server, prompt = matches[0]
    key, equals, value = rest.rpartition(" ")[2].partition("=")
    if not equals:
        return [f"{parameter.name}=" for parameter in prompt.arguments or []]
    return [
        f"{key}={shlex.quote(completed)}" for completed in await complete_argument(app, server, name, key, value, {})
    ]


@command(
    "/prompt", usage="[NAME [argument=value ...]]", example="/prompt code_review language=rust", suggest=_suggest_prompt
)
async def send_prompt(app: App, argument: str, emit: Emit) -> None:
    """Send an MCP prompt, or list them.

    Missing arguments are asked for, and the rendered prompt is shown before it is sent: all of it, also what is
    addressed to the model alone, since the user confirms it. What is for the user alone is not sent. Texts of embedded
    resources are sent as attachments; a model that does not understand a picture gets its name.
    """
    from ...mcp_client.content import is_for_model

    prompts = await _servers_of(app).list_prompts()
    is_server = argument in _servers_of(app).connections and argument not in (prompt.name for _, prompt in prompts)
    if not argument or is_server:
        await emit(_list_prompts([pair for pair in prompts if argument in ("", pair[0])], app.words))
        return
    try:
        name, *words = shlex.split(argument)
    except ValueError as error:
        raise UsageError(f"The arguments cannot be parsed: {error}.", "/prompt lists the prompts.") from None
    server, prompt = await _find_prompt(app, name)
    values = await _ask_missing(app, server, prompt, _parse_arguments(prompt, words))
    if values is None:
        return
    answer = await _servers_of(app).get_prompt(server, prompt.name, values)
    await emit(Notice(app.words("prompts.using", name=prompt.name, server=server)))
    for_model = [message for message in answer.messages if is_for_model(message.content)]
    for_user = [read_content(message.content) for message in answer.messages if not is_for_model(message.content)]
    if for_user:
        await emit(Notice(app.words("prompts.for_user")))
        await emit(Page(escape_visibly("\n".join(for_user))))
    if not for_model:
        await emit(Notice(app.words("prompts.nothing")))
        return
    messages, notices = await _render_messages(app, for_model)
    shown = (f"{message.role}: {_describe(message, app.backend.media_kinds)}" for message in messages)
    await emit(Page(escape_visibly("\n".join(shown))))
    for notice in notices:
        await emit(notice)
    if app.frontend is None or not await app.frontend.confirm(app.words("prompts.send")):
        return
    await emit_all(Turn(app.chat).run(messages), emit)


def _describe(message: Message, kinds: frozenset[MediaKind]) -> str:
    """Return the text of a message, with names for its media."""
    text = show_media(message).text.rstrip()
    return text.replace(NOT_SHOWN, "]") if any(media.kind in kinds for media in message.media) else text


async def _render_messages(app: App, found: Sequence[PromptMessage]) -> tuple[list[Message], list[Notice]]:
    """Return the messages of a prompt as the model reads them, and what is to be said about embedded resources."""
    from ...mcp_client.content import read_embedded_text
    from ...mcp_client.stored_content import read_block_media

    attached = {index: one for index, message in enumerate(found) if (one := read_embedded_text(message.content))}
    fenced, notices = attach.fence_attachments(app, [*attached.values()])
    texts = dict(zip(attached, fenced, strict=True))
    messages: list[Message] = []
    for index, message in enumerate(found):
        media = await read_block_media(app.media, message.content) if message.role == "user" else None
        text = "" if media else texts.get(index) or neutralize(read_content(message.content))
        messages.append(Message(message.role, text, media=(media,) if media else ()))
    return messages, notices


async def _find_server_prompt(app: App, name: str) -> Command | None:
    """Return the command of a prompt that is written as `server:prompt`."""
    server, colon, prompt_name = name.partition(":")
    if not colon or server not in app.servers.connections:
        return None
    prompt = next(
        (candidate for _, candidate in await app.servers.list_prompts(server) if candidate.name == prompt_name), None
    )
    if prompt is None:
        return None
    qualified = shlex.quote(f"{server}__{prompt_name}")

    async def run(app: App, argument: str, emit: Emit) -> None:
        await send_prompt(app, f"{qualified} {argument}", emit)

    async def suggest(app: App, typed: str) -> Sequence[str]:
        return await _suggest_prompt(app, f"{prompt_name} {typed}")

    about = sanitize_line(prompt.title or prompt.description or prompt.name)
    return Command((f"/{name}",), format_usage(prompt), run, suggest, about)


async def _list_server_prompts(app: App) -> Mapping[str, str]:
    """Return the prompts of all servers as commands."""
    prompts = await app.servers.list_prompts()
    named = {f"/{server}:{prompt.name}": prompt.title or prompt.description or "" for server, prompt in prompts}
    return {name: sanitize_line(about) for name, about in named.items() if name.isprintable() and " " not in name}


SOURCES.append(CommandSource(_find_server_prompt, _list_server_prompts))


async def _find_prompt(app: App, name: str) -> tuple[str, Prompt]:
    """Return the server and the prompt of a name, which may be qualified as `server__name`.

    Raises:
        UsageError: The name is unknown or ambiguous.
    """
    prompts = await _servers_of(app).list_prompts()
    matches = [(server, prompt) for server, prompt in prompts if name in (prompt.name, f"{server}__{prompt.name}")]
    if len(matches) == 1:
        return matches[0]
    listed = ", ".join(f"{server}__{prompt.name}" for server, prompt in matches or prompts)
    what = f'Several servers have a prompt "{name}".' if matches else f'There is no prompt "{name}".'
    raise UsageError(what, f"Available prompts: {listed}." if listed else "")


def _parse_arguments(prompt: Prompt, words: Sequence[str]) -> dict[str, str]:
    """Parse `name=value` words. Raises UsageError for unknown or repeated arguments."""
    known = [parameter.name for parameter in prompt.arguments or []]
    hint = f"Its arguments: {', '.join(known)}." if known else "It has no arguments."
    arguments = parse_words(words, hint)
    if unknown := next((name for name in arguments if name not in known), None):
        raise UsageError(f'The prompt {prompt.name} has no argument "{unknown}".', hint)
    return arguments


async def _ask_missing(app: App, server: str, prompt: Prompt, arguments: dict[str, str]) -> dict[str, str] | None:
    """Ask the user for missing required arguments; None if the user declines."""
    for argument in prompt.arguments or []:
        if argument.name in arguments or not argument.required:
            continue
        if app.frontend is None:
            raise UsageError(
                f"The prompt {prompt.name} requires the argument {argument.name}.", f"Write {argument.name}=value."
            )
        choices = await complete_argument(app, server, prompt.name, argument.name, "", arguments)
        description = f" ({argument.description})" if argument.description else ""
        answer = await app.frontend.ask_line(f"{argument.name}{description}: ", "", choices)
        if not answer:
            return None
        arguments = {**arguments, argument.name: answer}
    return arguments


async def complete_argument(
    app: App, server: str, prompt: str, argument: str, value: str, arguments: Mapping[str, str]
) -> Sequence[str]:
    """Return the server's completions of an argument value; empty if it does not support them."""
    from mcp_types import PromptReference

    reference = PromptReference(type="ref/prompt", name=prompt)
    try:
        answer = await _servers_of(app).complete(server, reference, argument, value, arguments)
    except ChatError:
        return []
    return answer.completion.values


def read_content(content: Any) -> str:
    """Return the text of a content block."""
    from ...mcp_client.content import block_to_text

    return block_to_text(content)


def _servers_of(app: App) -> Toolbox:
    """Return the toolbox of the MCP servers. Raises UsageError if there are no servers."""
    if not app.servers.connections:
        raise UsageError("There are no servers.", "/mcp add NAME -- COMMAND adds one.")
    return app.servers
