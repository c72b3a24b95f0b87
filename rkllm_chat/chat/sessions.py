"""Connect the conversation with its session file: start, resume, switch and rename sessions.

`session_files` handles files and `session_records` their content; here chat and session are kept consistent.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from urllib.parse import urlsplit

from ..backends.base import ConversationKeeper
from ..backends.shared.model_files import list_model_folders, resolve_model
from ..calls.model_families import make_scanner
from ..calls.scanner import settle_thoughts
from ..config.editor import DEFAULT_CONFIG_PATH
from ..config.files import find_origin
from ..config.settings import Settings, replace_model
from ..config.trust_rules import MODEL_SUFFIXES, Origin
from ..core.errors import ChatError
from ..core.events import CallFound, CallUnreadable, Event, Notice, Text, ToolFinished
from ..core.i18n import Words
from ..core.messages import Media, Message
from ..core.redact import REDACTED
from ..core.sanitize import shorten_line
from ..core.user_paths import path_exists
from ..core.version import __version__
from ..core.working_folder import find_working_folder
from ..storage.session_files import (
    RedactMember,
    SessionContents,
    SessionDirectory,
    SessionLog,
    parse_line,
    redact_nothing,
    to_strict_json,
)
from ..storage.session_index import MAX_TITLE_LENGTH, find_newest, read_setup, summarize
from ..storage.session_records import (
    FORMAT,
    LogEntry,
    Record,
    RestoredConversation,
    SessionTitle,
    Setup,
    hash_text,
    hash_tool,
    map_media,
    read_entry,
    rebuild_conversation,
    write_entry,
)
from .context import build_prompt
from .conversation import Conversation
from .tool_calls import initial_messages

_NEWEST = "newest"
_log = logging.getLogger(__name__)
_RECORDED_SETTINGS = (
    "model",
    "backend",
    "language",
    "tool_format",
    "constrained",
    "max_steps",
    "context_tokens",
    "prompt_profile",
    "thinking",
    "generation",
    "policy",
)

_MAX_NAMED_TOOLS = 6
_MAX_SHOWN_TURNS = 3
_MAX_SHOWN_CHARACTERS = 4000


class SessionManager:
    """Records the chat in the current session.

    Without a directory nothing is written.

    Args:
        directory: Directory of sessions.
        chat: The conversation; its `on_record` is set.
        notify: Shows a message to the user.
        redact: Redacts a text before it is written.
        get_starting: Returns the servers that are still starting, whose tools are not known yet.

    Attributes:
        directory: Directory of sessions.
        entries: All records of the current session.
    """

    def __init__(
        self,
        directory: SessionDirectory | None,
        chat: Conversation,
        notify: Callable[[str], None],
        redact: RedactMember = redact_nothing,
        get_starting: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self.directory, self._chat, self._notify = directory, chat, notify
        self.entries: list[LogEntry] = []
        self._setup: Setup | None = None
        self._copy_of = ""
        self._unwritten: list[Message] = []
        self._redact, self._get_starting = redact, get_starting
        self._session_log = self._make_session_log()
        chat.on_record = self.record

    @property
    def name(self) -> str:
        """Id of the current session; "" until its file exists."""
        return self._session_log.name if self._session_log else ""

    @property
    def saved_name(self) -> str:
        """Id of the current session if all of it is saved; else ""."""
        return self.name if self._session_log and not self._session_log.has_failed else ""

    def open(self, wanted: str) -> None:
        """Resume a session and report its state to the user.

        Args:
            wanted: Session id, or "newest" for the newest session of the current directory; "" does nothing.

        Raises:
            ChatError: There is no such session, or the directory cannot be trusted.
        """
        if not wanted or not self.directory:
            return
        name = _find_name(self.directory, wanted)
        for line in self.resume(name) if name else [self._chat.words("sessions.none")]:
            self._notify(line)

    def start_new(self) -> None:
        self.close()
        self._session_log = self._make_session_log()
        self._set_entries([], None)
        self._chat.restore([])

    def resume(self, name: str) -> list[str]:
        """Resume another session; a copy of it if another program has it open.

        Returns:
            Sentences for the user: state of the conversation, differences to the current setup, damage.

        Raises:
            ChatError: The session cannot be read.
        """
        words = self._chat.words
        lines: list[str] = []
        if not self.directory:
            return lines
        unlocked_contents = self.directory.read(name)
        session_log = self._make_session_log()
        if session_log and session_log.resume(name):
            contents = self.directory.read(name)  # read again: it is locked now
        else:
            contents = unlocked_contents
            lines.append(words("sessions.copied", name=name))
        # only now: a session that cannot be read leaves the current one open
        self.close()
        self._session_log = session_log
        lines += self._restore(contents, name)
        if isinstance(self._chat.backend, ConversationKeeper):
            self._chat.backend.resume_conversation(self.directory.state_folder(name))
        if session_log and not session_log.name:
            session_log.copy_entries(contents.entries)
            self._copy_of = name
        return lines + _describe_damage(unlocked_contents, words)

    def rename(self, name: str, title: str) -> None:
        """Set the title of a session, the current one or another; "" restores its first message.

        Raises:
            ChatError: There is no such session, it is open elsewhere, or it cannot be written.
        """
        if name == self.name:
            self._write(SessionTitle(title))
        elif self.directory:
            self.directory.rename(name, title, self._redact)

    @property
    def redacted_entries(self) -> list[LogEntry]:
        """The records, redacted as they may leave the program."""
        return [_redact_entry(entry, self._redact) for entry in self.entries]

    def record(self, record: Record) -> None:
        """Record an event; before a user message, also the setup if it changed."""
        if isinstance(record, Message) and (record.role == "user" or self._setup is None):
            setup = replace(describe_setup(self._chat), copy_of=self._copy_of)
            if setup != self._setup:
                self._setup = setup
                self._write(setup)
        for written in (*self._unwritten, record):
            self._write(written)
        self._unwritten.clear()

    async def keep_state(self) -> None:
        """Keep what the engine has evaluated of the session beside its file, for `--continue`, where that saves time.

        The prompt is built from what the file says, so the state has no secret that the file has not.
        """
        chat, backend = self._chat, self._chat.backend
        if not (self.directory and self.name and isinstance(backend, ConversationKeeper)):
            return
        restored = rebuild_conversation(self.redacted_entries)
        shown = [*restored.history[: restored.retained_count], *restored.history[restored.first_shown :]]
        try:
            await backend.keep_conversation(self.directory.state_folder(self.name), build_prompt(chat, shown))
        except ChatError as error:  # the session is whole without it
            _log.warning("The state of session %s is not kept: %s", self.name, error)
        self.directory.limit_states()

    def close(self) -> None:
        """Close the session file."""
        if self._session_log:
            self._session_log.close()

    def _write(self, record: Record) -> None:
        self.entries.append(LogEntry(time.time(), record))
        if self._session_log:
            self._session_log.append(record)

    def _make_session_log(self) -> SessionLog | None:
        return SessionLog(self.directory, self._report_write_error, self._redact) if self.directory else None

    def _report_write_error(self, trouble: str) -> None:
        words = self._chat.words
        self._notify(words("sessions.trouble", trouble=trouble) if trouble else words("sessions.saved_again"))

    def _restore(self, contents: SessionContents, name: str) -> list[str]:
        """Replace the chat's history by that of the session."""
        restored = rebuild_conversation(contents.entries)
        missing = _missing_messages(restored, self._chat)
        self._chat.restore([*restored.history, *missing], restored.first_shown, restored.retained_count)
        self._set_entries(contents.entries, restored.setup)
        self._unwritten = missing
        summary = summarize(name, contents.entries)
        last = next((message.text for message in reversed(restored.history) if message.role == "user"), "")
        words = self._chat.words
        lines = [words("sessions.resumed", name=name, turns=summary.turns, last=shorten_line(last, MAX_TITLE_LENGTH))]
        if not restored.setup:
            return lines
        return lines + _describe_differences(restored.setup, describe_setup(self._chat), self._get_starting(), words)

    def _set_entries(self, entries: Iterable[LogEntry], setup: Setup | None) -> None:
        self.entries = list(entries)
        self._setup, self._copy_of = setup, setup.copy_of if setup else ""
        self._unwritten = []


def _redact_entry(entry: LogEntry, redact: RedactMember) -> LogEntry:
    """Redact the texts of a record; where its media are is not written and stays."""
    paths: dict[str, str] = {}

    def note(media: Media) -> Media:
        paths[media.sha256] = media.path
        return media

    map_media(entry, note)
    redacted = read_entry(to_strict_json(write_entry(entry), redact))
    return map_media(redacted, lambda media: replace(media, path=paths.get(media.sha256, "")))


def _describe_damage(contents: SessionContents, words: Words) -> list[str]:
    """Describe what of a file could not be read, or may not be known."""
    lines = [words("sessions.damaged", count=contents.damaged_lines)] if contents.damaged_lines else []
    setups = (entry.record for entry in contents.entries if isinstance(entry.record, Setup))
    if newer := next((setup for setup in setups if setup.format > FORMAT), None):
        lines.append(words("sessions.newer", program=newer.program))
    is_torn = contents.torn_line and parse_line(contents.torn_line) is None
    return [*lines, words("sessions.torn", size=len(contents.torn_line))] if is_torn else lines


def adopt_model(settings: Settings, state: Path) -> Settings:
    """Return the settings for the model that the session to resume has used last, if it is still there.

    Nobody has named it in this start, and the file may be somebody else's: your key goes to no service but a configured
    one, and a model in the current folder is one of the folder, which is asked about.
    """
    directory = SessionDirectory(state / "sessions")
    name = _find_name(directory, settings.session)
    setup = read_setup(directory, name) if name else None
    model = setup.settings.get("model") if setup else None
    if not isinstance(model, str) or REDACTED in model or model == _locate_model(settings):
        return settings
    if "://" in model:
        hosts = {urlsplit(url)[:2] for url in settings.model.split()}
        may_adopt = not settings.openai.key_env or urlsplit(model)[:2] in hosts
        return replace_model(settings, model) if may_adopt else settings
    if not path_exists(model):
        return settings
    origin = Origin.USER
    if _is_of_folder(Path(model), settings):
        if not model.lower().endswith(MODEL_SUFFIXES):  # a script, which calls tools by itself
            return settings
        model, origin = os.path.relpath(model), Origin.PROJECT  # as the folder's configuration would name it
    return replace(replace_model(settings, model), origins={**settings.origins, "model": origin})


def _is_of_folder(model: Path, settings: Settings, environment: Mapping[str, str] = os.environ) -> bool:
    """Tell whether a model is in the current folder, but in none of the user's own folders for models."""
    if find_origin(str(DEFAULT_CONFIG_PATH), environment) is not Origin.PROJECT:
        return False
    own = [folder for folder in list_model_folders(settings.models_folder, environment) if folder.is_absolute()]
    here = Path.cwd()
    return model.resolve().is_relative_to(here) and not any(
        model.resolve().is_relative_to(folder.resolve()) for folder in own if folder.resolve() != here / "models"
    )


def _find_name(directory: SessionDirectory, wanted: str) -> str:
    """Return the id of a session, which may be "newest"; "" if there is none."""
    return wanted if wanted != _NEWEST else find_newest(directory, find_working_folder())


def _locate_model(settings: Settings) -> str:
    """Return the model of the settings as it can be named from any folder."""
    path = resolve_model(settings.model)
    return str(path.absolute()) if path_exists(str(path)) else settings.model


def describe_setup(chat: Conversation) -> Setup:
    """Describe the current configuration. Server configurations are left out, since they may contain secrets."""
    settings, backend = chat.settings, chat.backend
    tools = tuple(chat.toolbox.tools)
    known = {"model": _locate_model(settings), "language": chat.words.code, "prompt_profile": chat.profile.name}
    values = {**asdict(replace(settings, servers=())), **known}
    system = build_prompt(chat, ())
    return Setup(
        program=__version__,
        model=backend.name,
        backend=type(backend).__name__.lower(),
        template=backend.template,
        family=backend.family.name,
        asks=chat.call_format,
        accepts=backend.family.accepted_formats,
        context_tokens=backend.context_tokens,
        folder=find_working_folder(),
        prompt=hash_text(system[0].text),
        # through JSON, to have the same types as after reading
        settings=json.loads(json.dumps({key: values[key] for key in _RECORDED_SETTINGS})),
        tools=tools,
    )


def _describe_differences(then: Setup, now: Setup, starting: Collection[str], words: Words) -> list[str]:
    """Describe what differs for the model since the session was last written, one sentence each.

    Tools of servers that are still starting are not compared, nor are the chat's own, which depend on the servers, nor
    the prompt.
    """
    unknown = {*starting, ""} if starting else ()
    lines: list[str] = []
    if then.model != now.model:
        lines.append(words("sessions.other_model", then=then.model, now=now.model))
    elif then.template != now.template:
        lines.append(words("sessions.other_template"))
    before, after = (
        {tool.full_name: hash_tool(tool) for tool in setup.tools if tool.server not in unknown} for setup in (then, now)
    )
    if changed := sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name)):
        marks = [f"{'+' if name not in before else '-' if name not in after else '~'}{name}" for name in changed]
        if more := len(marks[_MAX_NAMED_TOOLS:]):
            marks[_MAX_NAMED_TOOLS:] = [words("sessions.more_tools", count=more)]
        lines.append(words("sessions.other_tools", tools=", ".join(marks)))
    elif then.prompt != now.prompt and not starting:
        lines.append(words("sessions.other_prompt"))
    return lines


def _missing_messages(restored: RestoredConversation, chat: Conversation) -> list[Message]:
    """Return the messages that an interrupted turn lacks: the results of its calls."""
    history, setup = restored.history, restored.setup or Setup()
    if not history or history[-1].role != "assistant":
        return []
    scanner = make_scanner(setup.asks or chat.call_format, setup.accepts, setup.tools)
    events = [*scanner.feed(history[-1].text), *scanner.close()]
    calls = [event for event in events if isinstance(event, CallFound | CallUnreadable)]
    return initial_messages(calls, chat.prompt_words)


def iter_turns_to_resume(state: Path, wanted: str) -> Iterator[Event]:
    """Yield the newest turns of a session before it is resumed.

    Raises:
        ChatError: There is no such session, or the directory cannot be trusted.
    """
    directory = SessionDirectory(state / "sessions")
    if name := _find_name(directory, wanted):
        yield from iter_last_turns(directory.read(name).entries)


def iter_last_turns(entries: Sequence[LogEntry]) -> Iterator[Event]:
    """Yield the newest turns of a session: at most three, and only one if they are long.

    Thoughts and discarded replies are left out; of tool results only the status is shown.
    """
    restored = rebuild_conversation(entries)
    history, setup = restored.history, restored.setup or Setup()
    starts = [index for index, message in enumerate(history) if message.role == "user"]
    shown = starts[-1:]
    for start in starts[-2 : -_MAX_SHOWN_TURNS - 1 : -1]:
        if sum(len(message.text) for message in history[start:] if message.role != "tool") > _MAX_SHOWN_CHARACTERS:
            break
        shown = [start]
    for message in history[shown[0] :] if shown else ():
        if message.role == "user":
            yield Notice(f"> {message.text}")
        elif message.role == "assistant" and message.reply_kind != "discarded":
            scanner = make_scanner(setup.asks or "json", setup.accepts, setup.tools)
            events = settle_thoughts([*scanner.feed(message.text), *scanner.close()])
            yield from (event for event in events if isinstance(event, Text))
        elif message.result:
            yield ToolFinished(message.result)
