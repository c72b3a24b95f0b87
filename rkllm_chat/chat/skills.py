"""The skills that the model can read: those of the user's own folder, and those of the servers.

The system text lists names and descriptions; the tool `read_skill` reads the rest when it is needed. What a skill says
widens no rights: its `allowed-tools` and other fields are not obeyed, and calls are approved as ever.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import ChatError, UsageError
from ..core.i18n import Words
from ..core.messages import Tool, ToolResult
from ..core.sanitize import sanitize_line
from ..core.skills import MAIN_FILE, MAX_FILES, MAX_SKILL_BYTES, Skill, SkillFile, is_skill_name, read_frontmatter
from ..prompt.tool_catalogue import extract_summary
from ..prompt.untrusted_text import neutralize_line

if TYPE_CHECKING:
    from ..mcp_client.toolbox import Toolbox

MAX_CATALOGUE_TOKENS = 200
SKILL_TOOL_NAME = "read_skill"
_LOCAL = "local"
_MAX_FILE_BYTES = 1024 * 1024
_STRING = {"type": "string"}
_SCHEMA = {"type": "object", "properties": {"name": _STRING, "file": _STRING}, "required": ["name"]}


class SkillLibrary:
    """The skills of a folder and of the servers.

    Args:
        folder: Folder with the user's own skills, each a folder with a `SKILL.md`.
        get_servers: Returns the connections to the servers.
        get_words: Returns the model-facing sentences.
    """

    def __init__(self, folder: Path, get_servers: Callable[[], Toolbox], get_words: Callable[[], Words]) -> None:
        self._folder, self._get_servers, self._get_words = folder, get_servers, get_words
        self._local: list[Skill] = []
        self.refresh()

    def refresh(self) -> None:
        """Read the folder again."""
        self._local = read_folder(self._folder)

    @property
    def skills(self) -> dict[str, Skill]:
        """All skills by label: the name, with its origin if it is not unique; also those that cannot be used."""
        skills = [*self._local, *self._get_servers().skills]
        count = Counter(skill.name for skill in skills)
        return {skill.name if count[skill.name] == 1 else _qualify(skill): skill for skill in skills}

    @property
    def usable(self) -> dict[str, Skill]:
        """The skills that can be used, by label."""
        return {label: skill for label, skill in self.skills.items() if not skill.fault}

    @property
    def tools(self) -> Sequence[Tool]:
        """The tool `read_skill`, if there is a skill; it is trusted if the origins of all skills are."""
        if not (skills := self.usable):
            return ()
        connections = self._get_servers().connections
        untrusted = [
            skill.server
            for skill in skills.values()
            if skill.server and connections[skill.server].config.trust != "trusted"
        ]
        about = "Read a skill: the instructions for a task, or a file of them"
        return (Tool(SKILL_TOOL_NAME, about, _SCHEMA, "", True, True, trusted=not untrusted, destructive=False),)

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Run a call of `read_skill`; every failure is a result."""
        label, file = str(arguments["name"]), str(arguments.get("file") or "")
        try:
            skill = await self.find(label)
            text = await self.read(skill, file)
        except ChatError as error:
            return ToolResult("", SKILL_TOOL_NAME, dict(arguments), "failed", error.message)
        words = self._get_words()
        heading = words("prompt.skill", name=label, origin=skill.server or words("prompt.skill_user"))
        if skill.paths and not file:
            heading = f"{heading} {words('prompt.skill_files', files=', '.join(skill.paths))}"
        return ToolResult("", SKILL_TOOL_NAME, dict(arguments), "completed", f"{sanitize_line(heading)}\n\n{text}")

    async def find(self, label: str) -> Skill:
        """Return the skill of a label, or of the URI of a skill that is not listed.

        Raises:
            UsageError: There is none, or it cannot be used.
        """
        skill = self.skills.get(label)
        if skill is None and label.endswith(f"/{MAIN_FILE}"):
            found = await self._get_servers().find_skills(label)
            skill = found[0] if len(found) == 1 else None
        if skill is None:
            raise UsageError(f'There is no skill "{label}". Skills: {", ".join(self.usable) or "none"}.')
        if skill.fault:
            raise UsageError(f'The skill "{label}" cannot be used.', "/skills says why.")
        return skill

    async def read(self, skill: Skill, file: str = "") -> str:
        """Return the text of a skill's `SKILL.md`, or of another file of it. Raises ChatError."""
        if skill.server:
            return await self._get_servers().read_skill(skill, file)
        return _read_local_file(skill, file or MAIN_FILE)

    def render(self, words: Words, limit_tokens: int, count_tokens: Callable[[str], int]) -> tuple[str, ...]:
        """Return the catalogue as a section of the system text; names alone, and then fewer, if it is too long."""
        skills = self.usable
        if not skills:
            return ()
        limit = min(MAX_CATALOGUE_TOKENS, limit_tokens)
        lines = [_render_line(label, skill) for label, skill in skills.items()]
        names = [neutralize_line(label) for label in skills]
        heading = words("prompt.skills")
        whole = "\n".join([heading, *lines])
        if count_tokens(whole) <= limit:
            return (whole,)

        def list_names(count: int) -> str:
            return f"{heading}\n{', '.join(names[:count])}"

        counts = range(2, len(names) + 1)
        fitting = bisect_left(counts, True, key=lambda count: count_tokens(list_names(count)) > limit)
        return (list_names(fitting + 1),)


def _render_line(label: str, skill: Skill) -> str:
    origin = f" ({neutralize_line(skill.server)})" if skill.server else ""
    return f"- {neutralize_line(label)}{origin}: {neutralize_line(extract_summary(skill.description))}"


def _qualify(skill: Skill) -> str:
    """Return the origin and the path of a skill, which are unique together."""
    return f"{skill.server or _LOCAL}:{skill.root.partition('://')[2] if skill.server else skill.name}"


def read_folder(folder: Path) -> list[Skill]:
    """Return the skills in a folder: each is a folder with a `SKILL.md`."""
    try:
        folders = sorted(path for path in folder.iterdir() if (path / MAIN_FILE).is_file())
    except OSError:
        return []
    return [_read_local_skill(path) for path in folders]


def _read_local_skill(folder: Path) -> Skill:
    try:
        front = read_frontmatter(_read_within(folder, MAIN_FILE).decode("utf-8-sig"))
        paths = islice((path for path in folder.rglob("*") if path.is_file()), MAX_FILES + 1)
        files = {str(path.relative_to(folder)): SkillFile("", path.stat().st_size) for path in sorted(paths)}
    except (OSError, ValueError, RecursionError, UsageError):
        return Skill(str(folder), folder.name, fault="malformed")
    name, description = front.get("name"), front.get("description")
    if not is_skill_name(name) or name != folder.name or not isinstance(description, str):
        return Skill(str(folder), folder.name, fault="malformed")
    is_large = len(files) > MAX_FILES or sum(file.size for file in files.values()) > MAX_SKILL_BYTES
    return Skill(str(folder), str(name), description, "", files, front, "large" if is_large else "")


def _read_within(folder: Path, file: str) -> bytes:
    """Return the content of a file in a folder; none outside is read, also not through a link.

    Raises:
        FileNotFoundError: There is no such file there.
        OSError, ValueError: It cannot be read.
        UsageError: It is too large.
    """
    folder = folder.resolve()
    path = (folder / file).resolve()
    if not path.is_relative_to(folder) or not path.is_file():
        raise FileNotFoundError(file)
    with path.open("rb") as stream:
        data = stream.read(_MAX_FILE_BYTES + 1)
    if len(data) > _MAX_FILE_BYTES:
        raise UsageError(f"The file {file} has more than {_MAX_FILE_BYTES} bytes.")
    return data


def _read_local_file(skill: Skill, file: str) -> str:
    """Return the text of a file in a skill's folder. Raises UsageError."""
    try:
        data = _read_within(Path(skill.uri), file)
    except FileNotFoundError:
        listed = ", ".join(skill.paths) or "none"
        raise UsageError(f'The skill "{skill.name}" has no file {file}. Its files: {listed}.') from None
    except (OSError, ValueError) as error:  # no permission; a name that is too long or has a NUL
        raise UsageError(f"The file {file} cannot be read: {getattr(error, 'strerror', error)}.") from None
    with suppress(UnicodeDecodeError):
        if "\0" not in (text := data.decode("utf-8-sig")):
            return text
    return f"[binary file, {len(data)} bytes, not shown]"
