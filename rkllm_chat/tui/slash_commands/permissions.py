"""Commands about which tools may run without a question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from ...calls.tool_names import shown_names, similar_names
from ...chat.app import App
from ...chat.event_stream import Emit
from ...config.policy import OF_FOLDER, SESSION_MODES, SessionMode, describe_mode, find_ambiguous, find_matching
from ...config.project_trust import needs_acceptance
from ...core.errors import UsageError
from ...core.events import Notice, Table
from ...core.messages import SEPARATOR
from .registry import command, suggest_nearest

_WILDCARDS = frozenset("*?[")
_CONFIRMATION = "yes"


async def _suggest_rules(app: App, typed: str) -> Sequence[str]:
    """Return completions for the action and its pattern."""
    _, blank, _ = typed.partition(" ")
    if not blank:
        return ["allow", "deny", "forget", "mode"]
    if typed.startswith("mode "):
        return SESSION_MODES
    return [*shown_names(app.toolbox.toolbox.tools), *_list_patterns(app)]


@command(
    "/permissions",
    usage="[allow|deny|forget PATTERN | mode MODE]",
    example="/permissions allow board__*",
    suggest=_suggest_rules,
)
async def show_permissions(app: App, argument: str, emit: Emit) -> None:
    """Show or change which tools run without approval.

    A pattern matches tool names, such as `server__*`. Rules are stored for this folder; the mode, which Shift+Tab
    switches too, lasts until the chat ends.
    """
    if argument:
        action, _, pattern = argument.partition(" ")
        if action == "mode":
            await emit(switch_mode(app, _parse_mode(pattern.strip())))
            return
        pattern = pattern.strip()
        if action not in ("allow", "deny", "forget") or not pattern:
            what = "An action (allow, deny or forget) and a pattern are required, or mode and a mode."
            raise UsageError(what, "For example: /permissions allow board__*")
        if action == "allow" or (action == "forget" and pattern not in _list_patterns(app)):
            pattern = _qualify(app, pattern)
        if action != "forget" and not await accept_pattern(app, action, pattern):
            return
        change_rule(app, action, pattern)
    await emit(Table((), tuple(_list_rules(app))))


def _qualify(app: App, pattern: str) -> str:
    """Return the pattern that the user means: of a server that the folder's files define, with the sign of these."""
    if pattern == "*" or pattern.startswith(OF_FOLDER):
        return pattern
    server, separator, _ = pattern.partition(SEPARATOR)
    if separator:
        found = [needs_acceptance(config) for config in app.settings.servers if fnmatchcase(config.name, server)]
    else:
        found = [tool.of_folder for tool in find_matching(pattern, app.toolbox.toolbox.tools)]
    return OF_FOLDER + pattern if found and all(found) else pattern


def _list_patterns(app: App) -> tuple[str, ...]:
    policy = app.settings.policy
    return (*policy.allow, *policy.deny, *app.chat.session_allowed)


def _list_rules(app: App) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the mode and of the rules: what, which and how long."""
    words, policy, stored = app.words, app.settings.policy, app.server_approval.trust_store.read_rules()
    yield words("permissions.mode"), words(f"modes.{policy.approve}"), words("permissions.configured")
    yield words("permissions.session_mode"), _name_mode(app), words("permissions.until_exit")
    for kind, patterns in (("allow", policy.allow), ("deny", policy.deny)):
        ambiguous = find_ambiguous(patterns, app.toolbox.toolbox.tools) if kind == "allow" else {}
        for pattern in patterns:
            scope = words("permissions.stored" if pattern in stored[kind] else "permissions.configured")
            if pattern in ambiguous:
                scope += "; " + words("permissions.ambiguous", names=", ".join(ambiguous[pattern]))
            yield words(f"permissions.{kind}"), pattern, scope
    for pattern in app.chat.session_allowed:
        yield words("permissions.allow"), pattern, words("permissions.until_exit")


def _name_mode(app: App) -> str:
    return app.words(f"modes.{describe_mode(app.settings.policy, app.chat.approval_mode)}")


def _parse_mode(text: str) -> SessionMode:
    """Return the mode of a name. Raises UsageError."""
    for mode in SESSION_MODES:
        if text == mode:
            return mode
    raise UsageError(f'There is no mode "{text}".', suggest_nearest(text, SESSION_MODES, "read-only, ask or auto."))


def switch_mode(app: App, mode: SessionMode | None = None) -> Notice:
    """Switch the approval mode of this session, to the next one by default, and say what it means."""
    policy = app.settings.policy
    if mode is None:
        now = describe_mode(policy, app.chat.approval_mode)
        mode = SESSION_MODES[(SESSION_MODES.index(now) + 1) % len(SESSION_MODES)] if now != "none" else "ask"
    app.chat.approval_mode = mode
    shown = describe_mode(policy, mode)
    return Notice(app.words(f"modes.about_{shown}"), "warning" if shown == "auto" else "info")


async def accept_pattern(app: App, action: str, pattern: str) -> bool:
    """Check a new pattern to allow or deny; ask about one that allows several tools, including future ones.

    Raises:
        UsageError: The pattern names a tool that no server has, or allows a name that several servers offer.
    """
    _check_pattern(app, pattern)
    if action == "deny":
        return True
    _check_server(app, pattern)
    if not _WILDCARDS & set(pattern):
        return True
    tools = find_matching(pattern, app.toolbox.toolbox.tools)
    question = app.words("permissions.confirm", pattern=pattern, count=len(tools), word=_CONFIRMATION)
    return app.frontend is not None and await app.frontend.ask_line(question, "") == _CONFIRMATION


def change_rule(app: App, action: str, pattern: str) -> None:
    """Add or delete a rule, here and in the stored rules. Raises UsageError if there is none to delete."""
    policy = app.settings.policy
    allow, deny, session = (
        tuple(rule for rule in rules if rule != pattern)
        for rules in (policy.allow, policy.deny, app.chat.session_allowed)
    )
    if action == "forget" and (allow, deny, session) == (policy.allow, policy.deny, app.chat.session_allowed):
        raise UsageError(f'There is no rule "{pattern}".', "/permissions lists the rules.")
    policy = replace(
        policy,
        allow=(*allow, pattern) if action == "allow" else allow,
        deny=(*deny, pattern) if action == "deny" else deny,
    )
    app.settings = replace(app.settings, policy=policy)
    app.chat.session_allowed = session
    app.server_approval.trust_store.change_rule(action, pattern)


def _check_server(app: App, pattern: str) -> None:
    """Raise UsageError for a pattern to allow that has no server, where several servers have such tools."""
    for names in find_ambiguous((pattern,), app.toolbox.toolbox.tools).values():
        text = f'"{pattern}" may mean a tool of several servers, so it allows none: {", ".join(names)}.'
        raise UsageError(text, f"Name the server too, for example {names[0]}.", candidates=names)


def _check_pattern(app: App, pattern: str) -> None:
    """Raise UsageError for the name of a tool that no server has; a server that is not open may have it."""
    tools = app.toolbox.toolbox.tools
    if _WILDCARDS & set(pattern) or find_matching(pattern, tools):
        return
    server, separator, _ = pattern.removeprefix(OF_FOLDER).partition(SEPARATOR)
    is_open = any(tool.server == server for tool in tools)
    if separator and not is_open and any(config.name == server for config in app.settings.servers):
        return
    near = ", ".join(similar_names(pattern, tools))
    raise UsageError(f'There is no tool "{pattern}".', f"Did you mean {near}?" if near else "/tools lists the tools.")
