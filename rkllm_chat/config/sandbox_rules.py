"""What a sandbox permits beyond a server's configuration: needs of known servers, and what the user has allowed.

Known servers are the rows of `known_servers.json` and those of the user's own `sandbox-rules.json` (key "known"), which
come first. A server is known by its package name in the command line, so a row never decides over an explicit setting
`write` or `network`, and its effect is shown before a project's server starts. What the user has allowed a server is in
its record in the trust store, by the file that defines it. Rows of the user's file (key "allowed"), where it was once,
come first; one goes when what it allows is changed.

One-shot commands import this module before they start a server, so it imports little.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.errors import ConfigError
from ..core.file_writes import lock_edits, replace_file
from ..core.private_files import explain_open_error, read_private
from ..core.programs import PACKAGE_RUNNERS
from ..core.records import field, record, replace
from ..core.strict_json import build_object
from .files import find_own_folder, find_state_folder
from .project_trust import TrustStore
from .servers import ServerConfig
from .value_checks import MAX_FILE_BYTES, check_size, decode_table, parse_document

_SHIPPED = os.path.join(os.path.dirname(__file__), "known_servers.json")
_OWN_FILE = "sandbox-rules.json"
_ALLOWED = "allowed"
_HINT = 'Correct the file; the documentation shows its form: {"known": [...], "allowed": [...]}.'


@record(frozen=True)
class KnownServer:
    """What a known server needs.

    Attributes:
        names: Names of its package and its command.
        reason: Why, as a key of the language table "known", or as text.
        network: It needs the network.
        files: Option -> default, for options that name a file whose folder it must write.
        variables: Variable -> default, for variables that name a file to be kept in a folder of the server's own.
        hides: Programs that it must not find, because it would have them install packages beside its own program.
    """

    names: tuple[str, ...] = ()
    reason: str = ""
    network: bool = False
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    hides: tuple[str, ...] = ()


@record(frozen=True)
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
    """Return the path of the user's own rules."""
    return os.path.join(find_own_folder(environment), _OWN_FILE)


def find_known(command: Sequence[str], environment: Mapping[str, str] = os.environ) -> KnownServer | None:
    """Return the row of a server by its command line; None if it is unknown.

    Raises:
        ConfigError: The user's own rules are invalid.
    """
    names = _list_names(command)
    rows = [*_decode(KnownServer, _read_own(environment), "known", find_own_rules(environment)), *_read_shipped(names)]
    return next((row for row in rows if not names.isdisjoint(row.names)), None)


def find_allowance(server: ServerConfig, environment: Mapping[str, str] = os.environ) -> Allowance:
    """Return what the user has allowed a server.

    Raises:
        ConfigError: The user's own rules are invalid, or the record of the server cannot be read.
    """
    key = Allowance(server.name, os.path.abspath(server.source))
    written = _decode(Allowance, _read_own(environment), _ALLOWED, find_own_rules(environment))
    own: Allowance | None = next(
        (allowance for allowance in written if replace(allowance, write=(), network=False) == key), None
    )
    if own:
        return own
    stored = _read_allowed(TrustStore(find_state_folder(environment)), server).get(key.file)
    try:
        return replace(key, **decode_table(Allowance, stored, key.file, _ALLOWED)) if stored else key
    except ConfigError:  # a damaged record allows nothing
        return key


def save_allowance(server: ServerConfig, allowance: Allowance, environment: Mapping[str, str] = os.environ) -> None:
    """Replace what the user has allowed a server, in its record; a row of the user's own rules about it is removed.

    Raises:
        ConfigError: A file cannot be read or written.
    """
    values = {name: getattr(allowance, name) for name in ("write", "network") if getattr(allowance, name)}
    store = TrustStore(find_state_folder(environment))
    with store.edit():
        others = {file: other for file, other in _read_allowed(store, server).items() if file != allowance.file}
        allowed = {**others, allowance.file: values} if values else others
        record = {key: value for key, value in store.read_record(server).items() if key != _ALLOWED}
        store.write_record(server, {**record, **({_ALLOWED: allowed} if allowed else {})})
    if not store.is_saved:
        folder = find_state_folder(environment)
        raise ConfigError(f"What you allow cannot be saved: {folder} is not writable.", path=folder)
    with lock_edits(find_state_folder(environment)):
        _remove_row(allowance, environment)


def _read_allowed(store: TrustStore, server: ServerConfig) -> dict[str, Any]:
    """Return what the record of a server allows, by the file that defines the server."""
    allowed = store.read_record(server).get(_ALLOWED)
    return allowed if isinstance(allowed, dict) else {}


def _remove_row(allowance: Allowance, environment: Mapping[str, str]) -> None:
    path, key = find_own_rules(environment), (allowance.server, allowance.file)
    tables = _read_own(environment)
    rows = [row for row in tables.get(_ALLOWED, ()) if (row.get("server"), row.get("file")) != key]
    if rows == tables.get(_ALLOWED, []):
        return
    text = json.dumps({**tables, _ALLOWED: rows}, ensure_ascii=False, indent=1) + "\n"
    try:
        replace_file(path, text.encode(errors="surrogatepass"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.", path=path) from None


def _read_shipped(names: set[str]) -> list[KnownServer]:
    """Return the shipped rows with one of these names; the others are not decoded, which would take 1 ms."""
    with open(_SHIPPED, encoding="utf-8") as file:
        rows = json.load(file)["known"]
    return _decode(
        KnownServer, {"known": [row for row in rows if not names.isdisjoint(row["names"])]}, "known", _SHIPPED
    )


def _read_own(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the tables of the user's own rules; empty without a file."""
    path = find_own_rules(environment)
    try:
        text = read_private(path, MAX_FILE_BYTES + 1).decode()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        reason = explain_open_error(error) if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"{path}: {reason}.", _HINT, path=path) from None
    check_size(text, path)
    tables = parse_document(lambda text: json.loads(text, object_pairs_hook=build_object), "JSON", text, path)
    if not isinstance(tables, dict) or not tables.keys() <= {"known", "allowed"}:
        raise ConfigError(f'{path}: it must be an object with the keys "known" and "allowed".', _HINT, path=path)
    return tables


def _decode(kind: Any, tables: Mapping[str, Any], key: str, path: str) -> list[Any]:
    rows = tables.get(key, [])
    if not isinstance(rows, list):
        raise ConfigError(f"{path}: {key} must be a list.", _HINT, path=path)
    return [kind(**decode_table(kind, row, path, f"{key}[{i}]")) for i, row in enumerate(rows)]


def _list_names(command: Sequence[str]) -> set[str]:
    """Return the names by which a command line may be known: its program, its package or its Python module."""
    program, *words = command
    names = {os.path.basename(program)}
    if names & PACKAGE_RUNNERS.keys():
        names |= {_strip_version(word) for word in words}
    if "-m" in words[:-1]:
        names.add(words[words.index("-m") + 1].replace("_", "-"))
    for word in (program, *words):
        _, middle, inside = os.path.realpath(word).rpartition("/node_modules/") if "/" in word else ("", "", "")
        if middle:
            parts = inside.split("/")
            names.add("/".join(parts[: 2 if parts[0].startswith("@") else 1]))
    return names


def _strip_version(word: str) -> str:
    """Return the package of a runner's argument, such as `@scope/name@1.2` or `name==1.2`."""
    name, _, _ = word.partition("==")
    place = name.rfind("@")
    return name[:place] if place > 0 else name
