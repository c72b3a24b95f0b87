"""Commands about what may run without a question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..desk import Desk
from ..errors import UsageError
from ..events import Table
from ..names import shown_names
from ..policy import matches
from ..trust import Accepted
from . import Stream, command

WILD = frozenset("*?[")
YES = "yes"


async def suggest_rules(desk: Desk, typed: str) -> Sequence[str]:
    _, blank, _ = typed.partition(" ")
    policy = desk.chat.settings.policy
    if not blank:
        return ["allow", "deny", "forget"]
    return [*shown_names(desk.toolbox.box.tools), *policy.allow, *policy.deny]


@command("/permissions", usage="[allow|deny|forget PATTERN]", suggest=suggest_rules)
async def show_permissions(desk: Desk, argument: str) -> Stream:
    """The rules that hold; a pattern is that of a tool, `server__*`. What is changed here is kept for this folder."""
    if argument:
        word, _, pattern = argument.partition(" ")
        if word == "allow" and WILD & set(pattern) and not await confirm(desk, pattern.strip()):
            return
        change(desk, word, pattern)
    policy = desk.chat.settings.policy
    rows: list[tuple[str, str]] = [(desk.words("permissions.mode"), policy.approve)]
    rows += [(desk.words("permissions.allow"), pattern) for pattern in policy.allow]
    rows += [(desk.words("permissions.deny"), pattern) for pattern in policy.deny]
    yield Table((), tuple(rows))


async def confirm(desk: Desk, pattern: str) -> bool:
    """Whether the person means a pattern that lets more than one tool run, also those that are yet to come."""
    tools = [tool for tool in desk.toolbox.box.tools if matches(tool, (pattern,))]
    question = desk.words("permissions.confirm", pattern=pattern, count=len(tools), word=YES)
    return desk.person is not None and await desk.person.read(question, "") == YES


def change(desk: Desk, word: str, pattern: str) -> None:
    """Adds a rule or takes one away. Raises UsageError."""
    policy, pattern = desk.chat.settings.policy, pattern.strip()
    if word not in ("allow", "deny", "forget") or not pattern:
        raise UsageError("Write allow, deny or forget, and a pattern.", "For example /permissions allow board__*")
    allow, deny = (tuple(one for one in rules if one != pattern) for rules in (policy.allow, policy.deny))
    if word == "forget" and (allow, deny) == (policy.allow, policy.deny):
        raise UsageError(f'There is no rule "{pattern}".')
    policy = replace(
        policy,
        allow=(*allow, pattern) if word == "allow" else allow,
        deny=(*deny, pattern) if word == "deny" else deny,
    )
    desk.chat.settings = replace(desk.chat.settings, policy=policy)
    keep(desk.gate.accepted, word, pattern)


def keep(accepted: Accepted, word: str, pattern: str) -> None:
    """Remembers a change for the next time in this folder."""
    before = accepted.read_rules()
    rules = {kind: [one for one in kept if one != pattern] for kind, kept in before.items()}
    if word in rules:
        rules[word].append(pattern)
    if rules != before:
        accepted.write_rules(rules)
