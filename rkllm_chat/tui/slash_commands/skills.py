"""The command for skills."""

from __future__ import annotations

from collections.abc import Sequence

from ...chat.app import App
from ...chat.event_stream import Emit
from ...core.errors import UsageError
from ...core.events import Notice, Page, Table
from ...core.sanitize import escape_visibly, shorten_line
from .registry import command


async def _suggest_skills(app: App, _typed: str) -> Sequence[str]:
    """Return the labels of all skills."""
    return list(app.chat.skills.skills) if app.chat.skills else ()


@command("/skills", usage="[NAME [FILE]]", example="/skills git-workflow", suggest=_suggest_skills)
async def show_skills(app: App, argument: str, emit: Emit) -> None:
    """List skills, or show one.

    The folder is read again.
    """
    library, words = app.chat.skills, app.words
    if library is None:
        raise UsageError("This conversation has no skills.")
    library.refresh()
    if argument:
        name, _, file = argument.partition(" ")
        skill = await library.find(name)
        await emit(Page(escape_visibly(await library.read(skill, file.strip()))))
        for path in () if file else skill.paths:
            await emit(Notice(escape_visibly(path)))
        return
    rows = [
        (label, skill.server or skill.uri, words(f"skills.{skill.fault}") if skill.fault else shorten_line(about))
        for label, skill in library.skills.items()
        for about in [skill.description]
    ]
    await emit(Table((), tuple(rows)) if rows else Notice(words("skills.none")))
