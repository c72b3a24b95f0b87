"""Prompts of one's own: Markdown files that become commands, of the user and, once approved, of the current folder.

A file may begin with a front matter (`key: value` lines between two lines `---`) with `description` and `arguments`,
the names of its arguments. Other keys belong to other programs and are ignored. In the text, `$1` to `$9` and `$name`
stand for one argument, `$ARGUMENTS` for all of them, and `$$` for `$`.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..core.errors import ConfigError, UsageError
from ..core.working_folder import find_working_folder
from .files import TRUST_VARIABLE, find_origin, find_own_folder, list_config_paths, read_text
from .project_trust import TrustStore, hash_value
from .trust_rules import Origin

_PROJECT_FOLDER = ".rkllm-chat/prompts"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_ARGUMENT = re.compile(r"[A-Za-z_]\w*")
_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_PLACEHOLDER = re.compile(r"\$(?:(\$)|([1-9])(?!\d)|([A-Za-z_]\w*))")
_ALL = "ARGUMENTS"
_MAX_FILES = 200


@dataclass(frozen=True)
class PromptFile:
    """A prompt in a file.

    Attributes:
        name: Name of its command, without the slash.
        path: Path of the file.
        text: The prompt.
        description: What it is for.
        arguments: Names of its arguments, in order.
        origin: Whose file it is.
    """

    name: str
    path: str
    text: str
    description: str = ""
    arguments: tuple[str, ...] = ()
    origin: Origin = Origin.USER

    @property
    def usage(self) -> str:
        """The arguments as help shows them."""
        count = max(len(self.arguments), self._positions)
        named = [*self.arguments, *(f"${number}" for number in range(len(self.arguments) + 1, count + 1))]
        return " ".join(name.upper() for name in named) or ("[TEXT]" if self._takes_all else "")

    @property
    def _positions(self) -> int:
        """The highest number of `$1` to `$9` in the text; 0 if there is none."""
        return max((int(match[2]) for match in _PLACEHOLDER.finditer(self.text) if match[2]), default=0)

    @property
    def _takes_all(self) -> bool:
        """Whether the text has `$ARGUMENTS`."""
        return any(match[3] == _ALL for match in _PLACEHOLDER.finditer(self.text))

    def fill(self, line: str) -> str:
        """Return the prompt with its arguments, each a word of the line, in shell quotes or not, or `name=value`.

        Raises:
            UsageError: An argument is missing, or there are too many.
        """
        hint = f"Usage: /{self.name} {self.usage}".rstrip()
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise UsageError(f"The arguments cannot be parsed: {error}.", hint) from None
        given: dict[str, str] = {}
        rest: list[str] = []
        for word in words:
            name, equals, value = word.partition("=")
            if equals and name in self.arguments:
                given[name] = value
            else:
                rest.append(word)
        for name in self.arguments:
            if name not in given and rest:
                given[name] = rest.pop(0)
        in_order = [*(given[name] for name in self.arguments if name in given), *rest]
        expected = [*self.arguments, *map(str, range(len(self.arguments) + 1, self._positions + 1))]
        if missing := [name for name in self.arguments if name not in given] or expected[len(in_order) :]:
            raise UsageError(f"/{self.name} needs the argument {missing[0]}.", hint)
        if len(in_order) > len(expected) and not self._takes_all:
            raise UsageError(f"/{self.name} has too many arguments.", hint)

        def replace_one(match: re.Match[str]) -> str:
            escaped, position, name = match.groups()
            if position:
                return in_order[int(position) - 1]
            return "$" if escaped else line if name == _ALL else given.get(name, match[0])

        return _PLACEHOLDER.sub(replace_one, self.text)


def list_prompt_folders(environment: Mapping[str, str] = os.environ) -> list[tuple[str, Origin]]:
    """Return the folders of prompts and whose they are; the user's own, which go first, cannot be replaced."""
    own = str(Path(find_own_folder(environment), "prompts"))
    is_trusted = find_origin(list_config_paths(environment)[-1], environment) is Origin.USER
    return [(own, Origin.USER), (_PROJECT_FOLDER, Origin.USER if is_trusted else Origin.PROJECT)]


def list_prompt_files(environment: Mapping[str, str] = os.environ) -> dict[str, PromptFile]:
    """Return the prompts by name; files that cannot be read are left out."""
    found: dict[str, PromptFile] = {}
    for folder, _ in list_prompt_folders(environment):
        try:
            paths = sorted(Path(folder).glob("*.md"))[:_MAX_FILES]
        except OSError:
            continue
        for path in paths:
            with suppress(ConfigError):
                if path.stem not in found and (prompt := find_prompt_file(path.stem, environment)):
                    found[path.stem] = prompt
    return found


def find_prompt_file(name: str, environment: Mapping[str, str] = os.environ) -> PromptFile | None:
    """Return the prompt of a name; None if there is none.

    Raises:
        ConfigError: Its file cannot be read.
    """
    if not _NAME.fullmatch(name):
        return None
    for folder, origin in list_prompt_folders(environment):
        path = f"{folder}/{name}.md"
        if os.path.lexists(path):
            return _parse(name, path, read_text(path), origin)
    return None


def _parse(name: str, path: str, content: str, origin: Origin) -> PromptFile:
    """Parse a file. Raises ConfigError."""
    front = _FRONT_MATTER.match(content)
    text = content[front.end() :] if front else content
    lines = [line.partition(":") for line in front[1].splitlines()] if front else []
    values = {key.strip(): value.strip().strip("\"'") for key, colon, value in lines if colon}
    arguments = tuple(values.get("arguments", "").strip("[]").replace(",", " ").split())
    if bad := next((argument for argument in arguments if not _ARGUMENT.fullmatch(argument) or argument == _ALL), None):
        raise ConfigError(f'{path}: "{bad}" cannot name an argument.', "Use letters, digits and _.", path=path)
    if not text.strip() or "\0" in text:
        raise ConfigError(f"{path}: the prompt is empty or has a NUL character.", path=path)
    return PromptFile(name, path, text.strip(), values.get("description", ""), arguments, origin)


def is_approved(prompt: PromptFile, store: TrustStore) -> bool:
    """Return whether a prompt may be used: it is the user's own, or the user approved it in its present form."""
    approved = store.read_file(_record_name()).get("prompts")
    return prompt.origin is not Origin.PROJECT or (
        isinstance(approved, dict) and approved.get(prompt.name) == _fingerprint(prompt)
    )


def approve_prompt(prompt: PromptFile, store: TrustStore) -> None:
    """Record that the user approved a prompt of this folder in its present form."""
    with store.edit():
        approved = store.read_file(_record_name()).get("prompts")
        approved = approved if isinstance(approved, dict) else {}
        prompts = {**approved, prompt.name: _fingerprint(prompt)}
        store.write_file(_record_name(), {"folder": find_working_folder(), "prompts": prompts})


def expand_command(line: str, store: TrustStore, environment: Mapping[str, str] = os.environ) -> str:
    """Return a text with the prompt that its first line calls, as `/name arguments`; other texts as they are.

    Raises:
        ConfigError: The prompt cannot be read, or belongs to this folder and was not approved.
        UsageError: Its arguments are wrong.
    """
    first, _, rest = line.partition("\n")
    name, _, arguments = first.partition(" ")
    prompt = find_prompt_file(name[1:].lower(), environment) if name.startswith("/") else None
    if prompt is None:
        return line
    if not is_approved(prompt, store):
        raise ConfigError(
            f"{prompt.path} is a prompt of this folder, and you have not approved it in its present form.",
            f"Type /{prompt.name} in the chat to read and approve it, or set {TRUST_VARIABLE}=1 if you trust every"
            " folder.",
            path=prompt.path,
        )
    return f"{prompt.fill(arguments.strip())}\n{rest}".rstrip("\n")


def _fingerprint(prompt: PromptFile) -> str:
    return hash_value([prompt.text, prompt.description, list(prompt.arguments)])


def _record_name() -> str:
    return f"prompts-of-{hash_value(find_working_folder())[:16]}.json"
