"""What the package index shows: the README with absolute links, and the project's addresses.

Links in the repository are relative, so that they work in a clone, on the forge and on the site, whatever the home of
the project is. A release sets RKLLM_CHAT_REPOSITORY to that home (the workflow takes it from the forge); then the links
of the README lead to the tag of this version. Without it, they stay relative, and there are no addresses.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hatchling.metadata.plugin.interface import MetadataHookInterface

REPOSITORY_VARIABLE = "RKLLM_CHAT_REPOSITORY"
SERVERS = ("board", "claude", "llm")
_LINK = re.compile(r"(?P<fence>^```.*?^```$)|(?P<open>!?\[[^\[\]]*\]\()(?P<target>[^)\s]+)\)", re.M | re.S)


class CustomMetadataHook(MetadataHookInterface):
    """Fills `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill the fields, unless they come from the sdist that is built."""
        if "readme" in metadata:
            return
        root = Path(self.root)
        text = (root / "README.md").read_text(encoding="utf-8")
        home = os.environ.get(REPOSITORY_VARIABLE, "").rstrip("/")
        if home:
            version = re.search(r'"(.+)"', (root / "rkllm_chat/core/version.py").read_text("utf-8").splitlines()[-1])
            assert version, "rkllm_chat/core/version.py does not end with the version"
            tag = f"v{version[1]}"
            metadata["urls"] = list_addresses(home, tag)
            text = make_links_absolute(text, home, tag) + name_servers(home)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def list_addresses(home: str, tag: str) -> dict[str, str]:
    """Return the addresses of the project by their labels."""
    return {
        "Documentation": f"{home}/tree/{tag}/docs",
        "Source": home,
        "Changelog": f"{home}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{home}/issues",
    }


def make_links_absolute(text: str, home: str, tag: str) -> str:
    """Return Markdown whose links lead to the files at a tag; images to their bytes."""

    def rewrite(match: re.Match[str]) -> str:
        if match["fence"] or "://" in match["target"] or match["target"].startswith("#"):
            return match[0]
        kind = "raw" if match["open"].startswith("!") else "blob"
        return f"{match['open']}{home}/{kind}/{tag}/{match['target']})"

    return _LINK.sub(rewrite, text)


def make_server_name(home: str, server: str) -> str:
    """Return a server's name in the MCP registry, in the namespace of the owner of a repository on GitHub."""
    owner = urlsplit(home).path.strip("/").partition("/")[0]
    return f"io.github.{owner}/rkllm-chat-{server}"


def name_servers(home: str) -> str:
    """Return the lines by which the MCP registry sees that the package is the one of its servers."""
    return "".join(f"\n<!-- mcp-name: {make_server_name(home, server)} -->" for server in SERVERS) + "\n"
