"""What the user has allowed servers beyond their configuration: rows in a file of the user's own.

A row belongs to a server by its name and the file that defines it. One-shot commands import this module before they
start a server, so it imports little.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..core.errors import ConfigError
from ..core.private_files import explain_open_error, make_folder, read_private, replace_private
from ..core.strict_json import build_object
from .files import find_own_folder
from .servers import ServerConfig
from .value_checks import MAX_FILE_BYTES, check_size, decode_table, parse_document

_OWN_FILE = "sandbox-rules.json"
_HINT = 'Correct the file; the documentation shows its form: {"allowed": [...]}.'


@dataclass(frozen=True)
class Allowance:
    """What the user has allowed one server.

    Attributes:
        server: Name of the server.
        file: Absolute path of the file that defines it.
        write: Writable folders and files.
        network: The network is available.
    """

    server: str = ""
    file: str = ""
    write: tuple[str, ...] = ()
    network: bool = False


def find_own_rules(environment: Mapping[str, str] = os.environ) -> str:
    """Return the path of the file."""
    return os.path.join(find_own_folder(environment), _OWN_FILE)


def find_allowance(server: ServerConfig, environment: Mapping[str, str] = os.environ) -> Allowance:
    """Return what the user has allowed a server.

    Raises:
        ConfigError: The file is invalid.
    """
    key = Allowance(server.name, os.path.abspath(server.source))
    allowed, path = _read_rows(environment), find_own_rules(environment)
    rows = [Allowance(**decode_table(Allowance, row, path, f"allowed[{i}]")) for i, row in enumerate(allowed)]
    return next((one for one in rows if replace(one, write=(), network=False) == key), key)


def save_allowance(allowance: Allowance, environment: Mapping[str, str] = os.environ) -> None:
    """Replace what the user has allowed one server; one that may do nothing more is left out.

    Raises:
        ConfigError: The file cannot be read or written.
    """
    from pathlib import Path

    path, key = Path(find_own_rules(environment)), (allowance.server, allowance.file)
    rows = [row for row in _read_rows(environment) if (row.get("server"), row.get("file")) != key]
    if allowance.write or allowance.network:
        rows.append({name: value for name, value in vars(allowance).items() if value})
    try:
        make_folder(path.parent)
        replace_private(path, json.dumps({"allowed": rows}, ensure_ascii=False, indent=1) + "\n")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.", path=str(path)) from None


def _read_rows(environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the rows of the file; none without a file."""
    path = find_own_rules(environment)
    try:
        text = read_private(path, MAX_FILE_BYTES + 1).decode()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        reason = explain_open_error(error) if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"{path}: {reason}.", _HINT, path=path) from None
    check_size(text, path)
    tables = parse_document(lambda text: json.loads(text, object_pairs_hook=build_object), "JSON", text, path)
    rows = tables.get("allowed", []) if isinstance(tables, dict) and tables.keys() <= {"allowed"} else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ConfigError(f'{path}: it must be an object whose key "allowed" has a list of objects.', _HINT, path=path)
    return rows
