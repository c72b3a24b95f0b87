"""Interactive loop: read a line, run it as a message or command, show its events.

The loop uses only what both front ends have, so it depends on no particular terminal. Ctrl+C stops the running stream
and keeps its output.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from ..backends import choose_backend, identify_model
from ..backends.shared.model_files import find_shipped_model
from ..calls.schema.resolve import required_of
from ..chat.app import App, open_app
from ..chat.attachments import save_results, send_message
from ..chat.event_stream import Emit
from ..chat.model_loading import make_loading_event
from ..chat.server_approval import ServerApproval, list_config_notices
from ..chat.server_events import ServerWait, count_servers
from ..chat.sessions import iter_turns_to_resume
from ..config.servers import BOARD_SERVER, is_board
from ..config.settings import Settings
from ..config.settings_source import SettingsSource
from ..core import i18n as language
from ..core.errors import ChatError
from ..core.events import Draft, Event, Leave, Notice, TurnEnded
from ..core.i18n import Words
from ..core.messages import Tool
from ..core.private_files import explain_open_error, make_folder, open_private
from ..core.redact import Redactor
from ..core.sanitize import shorten_line
from ..core.version import __version__
from ..core.working_folder import find_working_folder
from ..prompt.tool_listing import first_line
from ..storage.session_files import SessionDirectory
from . import slash_commands as commands
from .completion import LineCompleter
from .session_picker import pick_session
from .status_source import StatusSource
from .theme import Theme

if TYPE_CHECKING:
    from .interactive import InteractiveFrontend
    from .line_mode import LineModeFrontend

    AnyFrontend = InteractiveFrontend | LineModeFrontend

_PICK_SESSION = "pick"
_EXAMPLES = {
    **dict.fromkeys(("get_time", "get_current_time"), "example_time"),
    **dict.fromkeys(("list_files", "list_directory"), "example_files"),
    **dict.fromkeys(("web_search", "brave_web_search"), "example_search"),
}
"""Names of tools that usual servers have -> the example to show."""
_MAX_EXAMPLE = 60


class _GuardedFileHistory(FileHistory):
    """Input history in a file; a line that cannot be written stays in memory, and the first failure is reported.

    Attributes:
        on_error: Called with the reason of the first failure.
    """

    on_error: Callable[[str], object] | None = None

    def store_string(self, string: str) -> None:
        """Append a line to the file."""
        try:
            super().store_string(string)
        except OSError as error:
            if self.on_error:
                self.on_error(f"{os.fsdecode(self.filename)}: {explain_open_error(error)}")
            self.on_error = None


async def run_chat(
    settings: Settings,
    state: Path,
    themes: Callable[[str], Theme],
    source: SettingsSource,
    secrets: Redactor | None = None,
    exposed: Iterable[tuple[str, str]] = (),
    output_folder: str = "",
    message: str = "",
) -> int:
    """Run the interactive chat until the user leaves and return the exit code.

    The prompt appears at once; model and servers load in the background and the first line waits for them.

    Args:
        settings: The merged configuration.
        state: Folder of history, sessions and trust records.
        themes: Returns the colours of the screen for a value of the setting `theme`.
        source: Where the configuration was read from, for reloads.
        secrets: Redacts secrets in error messages.
        exposed: Pairs of a file that others can read and the key in it that holds a secret.
        output_folder: Where the media of tool results are saved; "" for nowhere.
        message: The first line of the user; "" for none.

    Raises:
        ChatError: The model cannot be opened.
    """
    words, status_source = language.load(settings.language), StatusSource(settings)
    async with AsyncExitStack() as stack:
        history, trouble = _open_history(state)
        frontend = _make_frontend(words, history, status_source, themes)
        async with frontend:
            frontend.show(Notice(words("repl.opening", version=__version__)))
            for path, key in exposed:
                frontend.show(Notice(words("repl.exposed", path=path, entry=key), "warning"))
            _report_history(history, trouble, frontend, words)
            if settings.session == _PICK_SESSION:
                directory, redact = SessionDirectory(state / "sessions"), Redactor().redact_member
                picked = await pick_session(directory, frontend, words, partial(directory.rename, redact=redact))
                if picked is None and not frontend.has_queued:
                    return 0
                if picked == "":
                    frontend.show(Notice(words("commands.no_sessions")))
                settings = source.read(picked) if picked else replace(settings, session="")
            approval, settings = await _approve(settings, state, frontend, words)
            _show_start(settings, state, frontend)
            app = open_app(settings, state, frontend, words, approval, secrets)
            opening = asyncio.ensure_future(stack.enter_async_context(app))
            stack.push_async_callback(cancel_opening, opening)
            ready = asyncio.ensure_future(_announce(opening, frontend, status_source, source))
            ready.add_done_callback(lambda done: done.cancelled() or done.exception())  # mark as retrieved
            frontend.submit(message)
            while (line := await frontend.read_line()) is not None:
                if line.startswith("!"):
                    await frontend.run_command(line[1:])
                elif await show_events(
                    partial(_run_line, ready, line, frontend, words, output_folder), words, frontend, status_source
                ):
                    break
            if ready.done() and not ready.exception() and (name := ready.result().sessions.saved_name):
                frontend.show(Notice(words("sessions.resume_with", name=name)))
        if ready.done():
            ready.result()
        ready.cancel()
    return 0


async def _approve(
    settings: Settings, state: Path, frontend: AnyFrontend, words: Words
) -> tuple[ServerApproval, Settings]:
    """Tell what of the configuration is not used, and ask about the files and servers that need approval.

    Returns:
        The approval, and the settings with the rights that the user has given.
    """
    for notice in list_config_notices(settings, words):
        frontend.show(Notice(notice, "warning"))
    approval = ServerApproval(state)
    await approval.ask_about_files(settings, frontend, words)
    agreed = await approval.ask_user(settings.servers, frontend, words, settings.policy.allow)
    policy = replace(settings.policy, allow=(*settings.policy.allow, *agreed))
    return approval, replace(settings, policy=policy)


def _show_start(settings: Settings, state: Path, frontend: AnyFrontend) -> None:
    """Show the turns to resume, which come before what is typed meanwhile, and that the model is being loaded."""
    turns = iter_turns_to_resume(state, settings.session)
    for event in (*turns, TurnEnded("answered"), make_loading_event(settings, state)):
        frontend.show(event)


def _report_history(history: History, trouble: str, frontend: AnyFrontend, words: Words) -> None:
    """Report why the input history is not kept, now or as soon as it cannot be written."""
    if trouble:
        frontend.show(Notice(words("repl.no_history", trouble=trouble), "warning"))
    elif isinstance(history, _GuardedFileHistory):
        history.on_error = lambda reason: frontend.show(Notice(words("repl.no_history", trouble=reason), "warning"))


def _make_frontend(
    words: Words, history: History, status_source: StatusSource, themes: Callable[[str], Theme]
) -> AnyFrontend:
    """Return a full screen front end, or line mode if the terminal cannot move its cursor."""
    if os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        from .line_mode import LineModeFrontend

        return LineModeFrontend(words, themes(status_source.settings.theme).has_color, status_source)
    from .interactive import InteractiveFrontend

    return InteractiveFrontend(words, history, LineCompleter(status_source), status_source, themes)


async def _announce(
    opening: asyncio.Future[App], frontend: AnyFrontend, status_source: StatusSource, source: SettingsSource
) -> App:
    """Wait for the app, then show the welcome lines, offer what made servers fail, and start the prefill.

    If opening fails, the pending line is ended so that the caller sees the error.
    """
    try:
        app = await asyncio.shield(opening)
    except ChatError:
        frontend.close_input()
        raise
    status_source.app, app.source = app, source
    status_source.recount_context()
    for notice in welcome_notices(app):
        frontend.show(notice)
    frontend.show_example(_find_example(app))
    await app.sandbox_access.offer()
    app.prefiller.start()
    return app


async def cancel_opening(opening: asyncio.Future[App]) -> None:
    """Cancel an unfinished opening and wait for it."""
    opening.cancel()
    await asyncio.wait([opening])


def _open_history(state: Path) -> tuple[_GuardedFileHistory | InMemoryHistory, str]:
    """Open the input history.

    Returns:
        The history and "", or a history in memory and the reason why the file cannot be used.
    """
    path = state / "history"
    try:
        make_folder(state)
        os.close(open_private(path))
    except OSError as error:
        return InMemoryHistory(), f"{path}: {explain_open_error(error)}"
    return _GuardedFileHistory(str(path)), ""


def welcome_notices(app: App) -> list[Notice]:
    """Return the opening lines: model, servers, failed servers, what the small model is, and a hint."""
    words = app.words
    servers = dict.fromkeys(tool.server for tool in app.toolbox.tools if tool.server)
    model, context = app.backend.name, app.backend.context_tokens
    listed = ", ".join(servers) or words("repl.no_servers")
    declined = [name for name, error in app.failures.items() if "accept" in error.details]  # it is the user's answer
    failures = {name: error for name, error in app.failures.items() if name not in declined}
    return [
        Notice(words("repl.ready", model=model, context=context, servers=listed)),
        *([Notice(words("servers.starting", **count_servers(starting)))] if (starting := app.starting_servers) else []),
        *([Notice(words("repl.declined", **count_servers(declined)), "warning")] if declined else []),
        *(Notice(_describe_failure(app, name, error), "error") for name, error in failures.items()),
        *([_describe_demonstration(app)] if _is_demonstration(app) else []),
        Notice(words("repl.hint")),
    ]


def _describe_failure(app: App, server: str, error: ChatError) -> str:
    """Say why a server is not there, and what starts it again if anything does."""
    key = "servers.failed" if server in app.servers.connections else "repl.failed"
    return app.words(key, server=server, error=error)


def _is_demonstration(app: App) -> bool:
    """Whether a new conversation begins with the small model that ships."""
    return not app.chat.history and identify_model(app.settings).file == find_shipped_model()


def _find_example(app: App) -> str:
    """Return a question that fits the connected servers, for a real model and a new conversation; else ""."""
    if app.chat.history or _is_demonstration(app) or choose_backend(app.settings) == "scripted":
        return ""
    if app.calls_no_tools:
        return app.words("repl.example_plain")
    servers, tools = {*app.starting_servers}, list(app.toolbox.tools)
    if example := next(filter(None, (_name_example(app, tool) for tool in tools)), ""):
        return example
    if BOARD_SERVER.name in servers:
        return app.words("repl.example_time")
    readers = [tool for tool in tools if tool.server and tool.read_only and not required_of(tool.schema)]
    if readers:
        return shorten_line(first_line(readers[0].description) or readers[0].name, _MAX_EXAMPLE)
    return app.words("repl.example_tools" if tools or servers else "repl.example_plain")


def _name_example(app: App, tool: Tool) -> str:
    """Return the question for a tool that usual servers have; "" for another, and for files of an unknown folder."""
    key = _EXAMPLES.get(tool.name, "") if tool.server else ""
    if key != "example_files":
        return app.words(f"repl.{key}") if key else ""
    folders = app.servers.find_folders().get(tool.server, ())
    if is_board(app.servers.connections[tool.server].config) or find_working_folder() in folders:
        return app.words("repl.example_files")
    question = app.words("repl.example_files_of", folder=folders[0]) if folders else ""
    return question if len(question) <= _MAX_EXAMPLE else ""


def _describe_demonstration(app: App) -> Notice:
    """Say what the small model is, what to ask it if the board server is there, and how to get a real one."""
    servers = {*app.starting_servers, *(tool.server for tool in app.toolbox.tools)}
    sample = app.words("repl.sample", example=app.words("repl.example_time")) if BOARD_SERVER.name in servers else ""
    return Notice(app.words("repl.demonstration", sample=sample))


async def _run_line(
    ready: asyncio.Future[App], line: str, frontend: AnyFrontend, words: Words, output_folder: str, emit: Emit
) -> None:
    """Run a line as a command or a message, after the app has been opened.

    If it is stopped while it waits for the app or for servers, the line becomes a draft again.
    """
    if commands.leaves(line):
        await emit(Leave())
        return
    if commands.needs_no_turn(line):
        opened = ready.result() if ready.done() else None
        await commands.explain(opened, words, line.partition(" ")[2].strip(), emit)
        return
    is_waiting, is_command = True, commands.is_command(line)

    async def pass_on(event: Event) -> None:
        nonlocal is_waiting
        is_waiting = isinstance(event, ServerWait)
        await emit(Draft(line) if isinstance(event, Draft) and not is_command else event)

    try:
        if not ready.done():
            await emit(Notice(words("repl.waiting")))
        app = await asyncio.shield(ready)
        if app.model_switch:
            await asyncio.wait([app.model_switch])
        is_waiting = False
        if app.source and not is_command and app.source.has_changed():
            await emit(Notice(words("servers.changed"), "warning"))
        run = commands.run if is_command else send_message
        with app.prefiller.paused():
            text = line if is_command else commands.remove_escape(line)
            await run(app, text, save_results(pass_on, output_folder, words))
    except asyncio.CancelledError:
        if is_waiting:
            frontend.show(Draft(line))
        raise


async def show_events(
    work: Callable[[Emit], Awaitable[None]], words: Words, frontend: AnyFrontend, status_source: StatusSource
) -> bool:
    """Show what `work` emits until it ends or the user stops it; return whether to leave.

    Errors other than ChatError are re-raised.
    """
    leave = False

    async def show(event: Event) -> None:
        nonlocal leave
        leave = leave or isinstance(event, Leave)
        status_source.note_event(event)
        frontend.show(event)

    showing = asyncio.ensure_future(work(show))
    try:
        with frontend.interruptible(showing.cancel):
            await asyncio.wait([showing])
    finally:
        showing.cancel()
        await asyncio.wait([showing])
    status_source.recount_context()
    if showing.cancelled():
        frontend.show(Notice(words("repl.stopped"), "warning"))
    elif isinstance(error := showing.exception(), ChatError):
        shown = status_source.app.secrets.redact_error(error) if status_source.app else error
        frontend.show(Notice(str(shown), "error"))
    elif error:
        raise error
    return leave
