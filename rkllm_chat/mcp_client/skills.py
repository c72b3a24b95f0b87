"""Skills of MCP servers: the extension io.modelcontextprotocol/skills (SEP-2640).

Skills are listed only where the server declares the extension. Nothing is fetched ahead; each file is compared with
the size and the digest of the listing at every read, and a `SKILL.md` also with the listed frontmatter.
"""

from __future__ import annotations

import logging
import re
from base64 import b64decode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from ..core.errors import ProtocolError, UsageError
from ..core.skills import (
    MAIN_FILE,
    MAX_FILES,
    MAX_SKILL_BYTES,
    Skill,
    SkillFault,
    SkillFile,
    is_skill_name,
    read_frontmatter,
)
from .advertised_tools import describe_skill
from .error_messages import summarize_error
from .protocol.limits import LIST_TIMEOUT_S
from .transports.driver import AnswerError

if TYPE_CHECKING:
    from ..config.tool_pins import PinnedFields
    from .client import Client

EXTENSION = "io.modelcontextprotocol/skills"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_NO_SUCH_SKILL = (-32602, -32002)

log = logging.getLogger(__name__)


def has_skills(client: Client) -> bool:
    """Return whether a server declares the extension."""
    return client.declares("extensions", EXTENSION)


async def list_skills(client: Client, server: str) -> list[Skill]:
    """Return the skills that a server lists; empty if it does not declare the extension, or the list is unusable."""
    if not has_skills(client):
        return []
    try:
        listing = await client.list_all("skills/list", "skills")
    except Exception as error:  # a server without a usable list may still have tools
        log.info("%s: its skills cannot be listed: %s", server, summarize_error(error))
        return []
    return [read_entry(entry, server) for entry in listing.entries]


def describe_entries(entries: Iterable[Any], server: str) -> dict[str, PinnedFields]:
    """Return what the entries of a server's skills declare, by URI."""
    return {skill.uri: describe_skill(skill) for skill in (read_entry(entry, server) for entry in entries)}


async def get_skill(client: Client, server: str, uri: str) -> Skill | None:
    """Return the skill of a URI, which need not be listed; None if the server has none."""
    if not has_skills(client):
        return None
    try:
        result = await client.request("skills/get", {"uri": uri}, LIST_TIMEOUT_S)
    except AnswerError as error:
        if error.code in _NO_SUCH_SKILL:
            return None
        raise
    skill = read_entry(result.get("skill"), server)
    return skill if skill.uri == uri else None


def read_entry(entry: Any, server: str) -> Skill:
    """Decode an entry of `skills/list`; one that breaks the specification has a fault."""
    entry = entry if isinstance(entry, Mapping) else {}
    front = entry.get("frontmatter")
    front = dict(front) if isinstance(front, Mapping) else {}
    uri, name = str(entry.get("uri", "")), front.get("name")
    files = _read_files(entry.get("resources"), uri)
    fault: SkillFault = ""
    if entry.get("resources") == "dynamic":
        fault = "dynamic"
    elif len(files) > MAX_FILES or sum(file.size for file in files.values()) > MAX_SKILL_BYTES:
        fault = "large"
    elif not files:
        fault = "malformed"
    is_named = is_skill_name(name) and uri.endswith(f"/{name}/{MAIN_FILE}")
    if not is_named or not isinstance(front.get("description"), str):
        fault = "malformed"
    return Skill(uri, str(name or uri), str(front.get("description", "")), server, files, front, fault)


def _read_files(resources: Any, uri: str) -> dict[str, SkillFile]:
    """Return the files of an entry by URI; empty if the list is malformed or without `SKILL.md`."""
    root = uri.removesuffix(MAIN_FILE)
    files: dict[str, SkillFile] = {}
    for item in resources if isinstance(resources, list) else ():
        file = item if isinstance(item, Mapping) else {}
        address, digest, size = file.get("uri"), file.get("digest"), file.get("size")
        if not (isinstance(address, str) and address.startswith(root) and ".." not in address.split("/")):
            return {}
        if not (isinstance(digest, str) and _DIGEST.fullmatch(digest)):
            return {}
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            return {}
        files[address] = SkillFile(digest, size)
    return files if uri in files and len(files) == len(resources) else {}


def check_file(skill: Skill, uri: str, result: Mapping[str, Any]) -> str:
    """Return the text of a file of a skill, once it is as the skill's entry describes it.

    Raises:
        ProtocolError: It is not.
    """
    contents = result.get("contents")
    content = contents[0] if isinstance(contents, list) and len(contents) == 1 else None
    blob, text = (content.get("blob"), content.get("text")) if isinstance(content, dict) else (None, None)
    try:
        data = b64decode(blob, validate=True) if isinstance(blob, str) else b""
    except ValueError:
        data = b""
    if isinstance(text, str):
        data = text.encode("utf-8", "surrogatepass")
    expected = skill.files[uri]
    is_listed = len(data) == expected.size and f"sha256:{sha256(data).hexdigest()}" == expected.digest
    text = data.decode("utf-8", "replace")
    if is_listed and uri == skill.uri:
        try:
            is_listed = read_frontmatter(text) == dict(skill.frontmatter)
        except ValueError:
            is_listed = False
    if not is_listed:
        what = f'The file {uri} of the skill "{skill.name}" of server "{skill.server}"'
        hint = "The skill may have changed; its list is read again."
        raise ProtocolError(f"{what} is not what the server listed; it was not used.", hint, server=skill.server)
    return text if "\0" not in text and "\ufffd" not in text else f"[binary file, {len(data)} bytes, not shown]"


def resolve_file(skill: Skill, path: str) -> str:
    """Return the URI of a file of a skill. Raises UsageError if the skill does not list it."""
    relative = path.strip().removeprefix("./").removeprefix(f"{skill.root}/")
    uri = f"{skill.root}/{relative}" if relative else skill.uri
    if uri not in skill.files:
        listed = ", ".join(skill.paths) or "none"
        raise UsageError(f'The skill "{skill.name}" has no file {path}. Its files: {listed}.')
    return uri
