"""Which servers have no handshake (only MCP 2026-07-28), so that the next command asks them at once.

A file of the user's state has a checksum of how each of them is reached, which tells no secret of a URL. It is a cache:
what cannot be read or written is found out again, and a server that is taken for another one gets its handshake.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress

from ...config.files import find_state_folder
from ...config.servers import ServerConfig
from ...core.file_writes import replace_file
from ...core.private_files import make_folder, read_private

_FILE = "stateless_servers.json"
_MAX_BYTES = 1 << 16
_MAX_SERVERS = 200


def is_stateless(server: ServerConfig) -> bool:
    """Tell whether a server had no handshake when it was last asked."""
    known = _read()
    return bool(known) and _identify(server) in known


def note_stateless(server: ServerConfig, is_known: bool) -> None:
    """Remember that a server has no handshake, or forget it."""
    identity, known = _identify(server), _read()
    others = [checksum for checksum in known if checksum != identity]
    noted = [*others, identity][-_MAX_SERVERS:] if is_known else others
    if noted == known:
        return
    with suppress(OSError):
        make_folder(find_state_folder())
        replace_file(_find_file(), json.dumps(noted).encode(), is_durable=False)


def _find_file() -> str:
    return os.path.join(find_state_folder(), _FILE)


def _read() -> list[str]:
    """Return the checksums; without the file, nothing else is done."""
    try:
        known = json.loads(read_private(_find_file(), _MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return []
    return [checksum for checksum in known if isinstance(checksum, str)] if isinstance(known, list) else []


def _identify(server: ServerConfig) -> str:
    from zlib import crc32  # a tenth of what importing hashlib takes

    return f"{crc32(json.dumps([server.command, *server.args, server.url]).encode()):08x}"
