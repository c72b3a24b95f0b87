"""Commands about which tools may run without a question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...calls.tool_names import shown_names, similar_names
from ...chat.app import App
from ...config.policy import matches_patterns
from ...config.project_trust import TrustStore
from ...core.errors import UsageError
from ...core.events import Table
from ...core.messages import SEPARATOR
from .registry import EventStream, command

_WILDCARDS = frozenset("*?[")
_CONFIRMATION = "yes"


async def _suggest_rules(app: App, typed: str) -> Sequence[str]:
    """Return completions for the action and its pattern."""
    _, blank, _ = typed.partition(" ")
    policy = app.settings.policy
    if not blank:
        return ["allow", "deny", "forget"]
    return [*shown_names(app.toolbox.toolbox.tools), *policy.allow, *policy.deny]


@command("/permissions", usage="[allow|deny|forget PATTERN]", suggest=_suggest_rules)
async def show_permissions(app: App, argument: str) -> EventStream:
    """List the permission rules, or change one.

    A pattern matches tool names, such as `server__*`. Changes are stored for this folder.
    """
    if argument:
        action, _, pattern = argument.partition(" ")
        if action == "allow" and _WILDCARDS & set(pattern) and not await _confirm(app, pattern.strip()):
            return
        change_rule(app, action, pattern)
    policy = app.settings.policy
    rows: list[tuple[str, str]] = [(app.words("permissions.mode"), policy.approve)]
    rows += [(app.words("permissions.allow"), pattern) for pattern in policy.allow]
    rows += [(app.words("permissions.deny"), pattern) for pattern in policy.deny]
    yield Table((), tuple(rows))


async def accept_patterns(app: App, action: str, patterns: Sequence[str]) -> bool:
    """Check the patterns that are to replace those of `action`; ask about each new one that allows several tools.

    Raises:
        UsageError: A pattern names a tool that no server has.
    """
    for pattern in set(patterns) - set(getattr(app.settings.policy, action)):
        _check_pattern(app, pattern)
        if action == "allow" and _WILDCARDS & set(pattern) and not await _confirm(app, pattern):
            return False
    return True


async def _confirm(app: App, pattern: str) -> bool:
    """Ask the user to confirm a pattern that allows several tools, including future ones."""
    tools = [tool for tool in app.toolbox.toolbox.tools if matches_patterns(tool, (pattern,))]
    question = app.words("permissions.confirm", pattern=pattern, count=len(tools), word=_CONFIRMATION)
    return app.frontend is not None and await app.frontend.ask_line(question, "") == _CONFIRMATION


def change_rule(app: App, action: str, pattern: str) -> None:
    """Add or delete a rule, here and in the stored rules. Raises UsageError."""
    policy, pattern = app.settings.policy, pattern.strip()
    if action not in ("allow", "deny", "forget") or not pattern:
        what = "An action (allow, deny or forget) and a pattern are required."
        raise UsageError(what, "For example: /permissions allow board__*")
    if action != "forget":
        _check_pattern(app, pattern)
    allow, deny = (tuple(one for one in rules if one != pattern) for rules in (policy.allow, policy.deny))
    if action == "forget" and (allow, deny) == (policy.allow, policy.deny):
        raise UsageError(f'There is no rule "{pattern}".', "/permissions lists the rules.")
    policy = replace(
        policy,
        allow=(*allow, pattern) if action == "allow" else allow,
        deny=(*deny, pattern) if action == "deny" else deny,
    )
    app.settings = replace(app.settings, policy=policy)
    store_rule(app.server_approval.trust_store, action, pattern)


def _check_pattern(app: App, pattern: str) -> None:
    """Raise UsageError for the name of a tool that no server has; a server that is not open may have it."""
    tools = app.toolbox.toolbox.tools
    if _WILDCARDS & set(pattern) or any(matches_patterns(tool, (pattern,)) for tool in tools):
        return
    server, separator, _ = pattern.partition(SEPARATOR)
    is_open = any(tool.server == server for tool in tools)
    if separator and not is_open and any(one.name == server for one in app.settings.servers):
        return
    near = ", ".join(similar_names(pattern, tools))
    raise UsageError(f'There is no tool "{pattern}".', f"Did you mean {near}?" if near else "/tools lists the tools.")


def store_rule(trust_store: TrustStore, action: str, pattern: str) -> None:
    """Store a changed rule for this folder."""
    before = trust_store.read_rules()
    rules = {kind: [rule for rule in patterns if rule != pattern] for kind, patterns in before.items()}
    if action in rules:
        rules[action].append(pattern)
    if rules != before:
        trust_store.write_rules(rules)
