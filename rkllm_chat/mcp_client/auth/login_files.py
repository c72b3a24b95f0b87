"""Where the login of a server is stored. Apart from what reads it, which imports the MCP SDK."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from urllib.parse import urlsplit

from ...config.servers import ServerConfig


def login_file_name(server: ServerConfig) -> str:
    """Return the file name of a login; URL, client and grant identify it."""
    whole = "\n".join((server.url, server.oauth.grant, server.oauth.client_id))
    host = "".join(
        character if character.isalnum() or character in ".-" else "_"
        for character in urlsplit(server.url).hostname or ""
    )
    return f"{host[:64]}-{hashlib.sha256(whole.encode()).hexdigest()[:16]}.json"


def has_stored_login(folder: Path | None, server: ServerConfig) -> bool:
    """Tell whether something is stored as the login of a server, be it damaged."""
    return folder is not None and os.path.lexists(folder / login_file_name(server))
