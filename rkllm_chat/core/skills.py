"""Skills: instructions for a task, in a `SKILL.md` with YAML frontmatter and other files beside it.

Sources: the Agent Skills specification (agentskills.io), and for skills of MCP servers the extension
io.modelcontextprotocol/skills (SEP-2640). Pure; PyYAML is imported when the first frontmatter is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

MAIN_FILE = "SKILL.md"
MAX_FILES = 512
MAX_SKILL_BYTES = 16 * 1024 * 1024
"""The limits of one skill (SEP-2640, Limits)."""
_MAX_FRONTMATTER_CHARS = 64 * 1024
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_MAX_NAME_LENGTH = 64
_FRONTMATTER = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)

SkillFault = Literal["", "malformed", "dynamic", "large"]
"""Why a skill cannot be used, a key of the language table "skills"; "" if it can."""


@dataclass(frozen=True)
class SkillFile:
    """A file of a skill: `sha256:` and the digest of its bytes in hexadecimal, and their number."""

    digest: str
    size: int


@dataclass(frozen=True)
class Skill:
    """A skill as its origin describes it.

    Attributes:
        uri: URI of its `SKILL.md`; the path of its folder for a local skill.
        name: Its name, which need not be unique.
        description: When to use it; untrusted if it comes from a server.
        server: Name of the server that serves it; "" for a local skill.
        files: Its files by URI, or by path within its folder.
        frontmatter: The frontmatter of its `SKILL.md`.
        fault: Why it cannot be used.
    """

    uri: str
    name: str
    description: str = ""
    server: str = ""
    files: Mapping[str, SkillFile] = field(default_factory=dict[str, SkillFile])
    frontmatter: Mapping[str, Any] = field(default_factory=dict[str, Any])
    fault: SkillFault = ""

    @property
    def root(self) -> str:
        """The URI of its directory, without a slash at the end."""
        return self.uri.removesuffix(f"/{MAIN_FILE}")

    @property
    def paths(self) -> list[str]:
        """The paths of its files within its directory, without its `SKILL.md`."""
        paths = (uri.removeprefix(f"{self.root}/") for uri in self.files)
        return [path for path in paths if path != MAIN_FILE]


def is_skill_name(name: object) -> bool:
    """Return whether a value is a name by the Agent Skills specification."""
    return isinstance(name, str) and len(name) <= _MAX_NAME_LENGTH and _NAME.fullmatch(name) is not None


def read_frontmatter(text: str) -> dict[str, Any]:
    """Return the frontmatter of a `SKILL.md`; dates in it stay texts, as in JSON.

    Raises:
        ValueError: There is none, it is no YAML mapping, is longer than 64 Ki characters, or not plain.
    """
    match = _FRONTMATTER.match(text[:_MAX_FRONTMATTER_CHARS])
    if match is None:
        raise ValueError("it does not begin with a frontmatter between two lines of ---")
    from .plain_yaml import load_yaml  # 30 ms, which a chat without skills need not spend

    try:
        value = load_yaml(match[1])
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its frontmatter is not plain YAML: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(value, dict):
        raise ValueError("its frontmatter is not a mapping")
    return value
