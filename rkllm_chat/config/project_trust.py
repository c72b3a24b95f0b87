"""Remember what the user has accepted: project servers, tool pins and approval rules of a directory.

The author of a directory is untrusted, so a server that its files define starts only after the user accepted it
(`mcp_client.acceptance` describes what is accepted). The record is a keyed hash of the values that it is started with,
and what its process may access. Records are files of mode 0600 in a directory of mode 0700, and links are not followed.

It never asks the user.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from ..core.errors import ConfigError
from ..core.file_writes import lock_edits, replace_in_folder
from ..core.private_files import make_folder, open_folder, open_private
from ..core.programs import PROGRAM_NAME, find_program
from ..core.working_folder import find_working_folder
from .files import TRUST_VARIABLE
from .servers import ServerConfig, is_board
from .trust_rules import Origin

_DIRECTORY_NAME = "trust"
"""Name of the directory of records inside the state directory."""
_IGNORED_FIELDS = (
    "env",
    "headers",
    "oauth",
    "cwd",
    "source",
    "origin",
    "replaces",
    "place",
    "trust",
    "enabled",
    "instructions",
    "tools_allow",
    "tools_deny",
    "log_level",
    "original_name",
    "not_obeyed",
    "kept_off",
    "disabled_by",
    "ignored_keys",
    "timeout_s",
    "tool_timeouts",
    "connect_s",
    "ping_s",
    "idle_s",
)
"""Fields that may change without invalidating the acceptance; of env, headers and oauth the names are compared."""
_DEFAULTS = ServerConfig(name="")
# Environment variables that decide which code programs load. Their values are shown to the user: none is a secret.
_LOADER_VARIABLES = frozenset(
    (
        "PATH",
        "HOME",
        "ENV",
        "BASH_ENV",
        "SHELLOPTS",
        "IFS",
        "PROMPT_COMMAND",
        "XDG_CONFIG_HOME",
        "GCONV_PATH",
        "PYTHONPATH",
        "PYTHONHOME",
        "PYTHONSTARTUP",
        "PYTHONUSERBASE",
        "PYTHONBREAKPOINT",
        "PYTHONPYCACHEPREFIX",
        "NODE_OPTIONS",
        "NODE_PATH",
        "PERL5LIB",
        "PERL5OPT",
        "RUBYLIB",
        "RUBYOPT",
        "CLASSPATH",
        "LOCPATH",
        "PYTHONWARNINGS",
        "BROWSER",
        "EDITOR",
        "VISUAL",
        "PAGER",
        "SHELL",
        "PERL5DB",
        "RUSTC_WRAPPER",
        "PYTHONINSPECT",
        "PYTHONPLATLIBDIR",
        "GIT_EDITOR",
        "GIT_PAGER",
        "GIT_EXTERNAL_DIFF",
        "GIT_PROXY_COMMAND",
        "GIT_TEMPLATE_DIR",
        "GIT_DIR",
        "MAKEFLAGS",
        "MAKEFILES",
        "ZDOTDIR",
        "LESSOPEN",
        "LESSCLOSE",
        "MANPAGER",
        "LUA_INIT",
        "LUA_PATH",
        "LUA_CPATH",
        "PHPRC",
        "PHP_INI_SCAN_DIR",
        "DOTNET_STARTUP_HOOKS",
        "TCLLIBPATH",
        "DBUS_SESSION_BUS_ADDRESS",
        "PYTHON_KEYRING_BACKEND",
        "MAVEN_OPTS",
        "GRADLE_OPTS",
        "SBT_OPTS",
        "ERL_FLAGS",
        "JAVA_TOOL_OPTIONS",
        "_JAVA_OPTIONS",
        "JDK_JAVA_OPTIONS",
        "GIT_SSH",
        "GIT_SSH_COMMAND",
        "GIT_EXEC_PATH",
    )
)
_LOADER_PREFIXES = ("LD_", "DYLD_", "GIT_CONFIG", "OPENSSL_")
"""Prefixes of the names of such variables."""
_LOADER_SUFFIX = "_ASKPASS"
_KEY_FILE = "key.json"
_RULES_PREFIX = "rules-of-"
_MAX_FILE_BYTES = 16 << 20
_UNSAVED: dict[str, dict[str, dict[str, Any]]] = {}
"""Records that could not be written, by name, of each state directory: they are kept until the program ends."""
_SETTLED_NS = 1_000_000_000
"""A file that was replaced so recently may be replaced again with the same inode and within the resolution of times."""
_PARSED: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {}
"""Path of a file -> what it was when it was read, and its content, which nobody changes."""


def is_project(server: ServerConfig) -> bool:
    """Return whether a file of the current directory defines the server."""
    return server.origin is Origin.PROJECT


def needs_acceptance(server: ServerConfig) -> bool:
    """Return whether a server starts only after the user has accepted it."""
    return is_project(server) and not is_board(server)


def is_enabled(server: ServerConfig) -> bool:
    """Return whether the server is enabled and its trust is not "off"."""
    return server.enabled and server.trust != "off"


def list_refused(servers: Iterable[ServerConfig], accepted: Iterable[ServerConfig]) -> set[str]:
    """Return the names of the enabled servers that are not among those that may start."""
    return {server.name for server in servers if is_enabled(server)} - {server.name for server in accepted}


def may_change_tools(server: ServerConfig) -> bool:
    """Return whether the server may change its tools without review.

    This holds for trusted servers, for servers that ship with the program and change with its releases, and for servers
    without command and URL, which run in this process.
    """
    is_ours = server.command == PROGRAM_NAME and tuple(server.args[:1]) == ("serve",)
    return server.trust == "trusted" or is_ours or not (server.command or server.url)


def is_loader_variable(name: str) -> bool:
    """Return whether an environment variable decides which code other programs load."""
    name = name.upper()
    return name in _LOADER_VARIABLES or name.startswith(_LOADER_PREFIXES) or name.endswith(_LOADER_SUFFIX)


def list_start_values(server: ServerConfig) -> dict[str, Any]:
    """Return all settings that decide what runs or is contacted, as they are; defaults are left out.

    The values may be secret.
    """
    tables = {"env": dict(server.env), "headers": dict(server.headers), "oauth": _list_oauth(server)}
    return {**_list_plain_values(server), **{key: table for key, table in tables.items() if table}, "cwd": server.cwd}


def _list_plain_values(server: ServerConfig) -> dict[str, Any]:
    values = {key: value for key, value in vars(server).items() if key not in _IGNORED_FIELDS}
    return {key: value for key, value in values.items() if value != getattr(_DEFAULTS, key)}


def _list_oauth(server: ServerConfig) -> dict[str, str]:
    """Return the OAuth settings that are not defaults."""
    return {key: value for key, value in vars(server.oauth).items() if value != getattr(_DEFAULTS.oauth, key)}


def describe_start(server: ServerConfig) -> dict[str, Any]:
    """Identify a server for the pins of its tools: how it is started, without the secrets in env, headers and oauth.

    Variables are expanded and defaults left out. Of env, headers and oauth only the names are included, plus the values
    of variables that change loading. `args` and `url` are included as they are and may contain secrets.
    """
    description = _list_plain_values(server)
    names = {
        "env": [f"{name}={value}" if is_loader_variable(name) else name for name, value in sorted(server.env.items())],
        "headers": sorted(server.headers),
        "oauth": sorted(key for key in _list_oauth(server) if key != "grant"),
    }
    description |= {key: value for key, value in names.items() if value}
    if server.command:
        description["cwd"] = os.path.abspath(os.path.expanduser(server.cwd)) if is_project(server) else server.cwd
    return description


def find_command_path(server: ServerConfig) -> str:
    """Return the absolute path of a server's command; the command as written if no such program exists."""
    if server.command == PROGRAM_NAME:  # a server that ships is started by this program, wherever the PATH leads
        return PROGRAM_NAME
    command = os.path.expanduser(server.command)
    path = find_program(command, server.env.get("PATH"))
    return os.path.abspath(path) if path else command


def hash_value(value: Any) -> str:
    """Return the SHA-256 of a JSON value as hexadecimal digits."""
    import hashlib  # 2 ms, which most one-shot commands need not spend

    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _hash_with_key(key: bytes, value: Any) -> str:
    """Return the keyed hash (BLAKE2b) of a JSON value: without the key, a short secret in it cannot be guessed."""
    import hashlib

    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return hashlib.blake2b(text.encode(errors="surrogatepass"), key=key, digest_size=32).hexdigest()


class TrustStore:
    """Store of accepted servers, pins and rules: one file per server and directory.

    Args:
        state: State directory of the program; None keeps everything in memory.
    """

    def __init__(self, state: str | None) -> None:
        self._state, self._edited = state, dict[str, dict[str, Any]]()
        self._is_edited = False
        self._folder = os.path.join(state, _DIRECTORY_NAME) if state is not None else None
        self._memory = _UNSAVED.setdefault(state, {}) if state is not None else dict[str, dict[str, Any]]()

    @contextmanager
    def edit(self) -> Iterator[None]:
        """Keep other processes from changing records between reading and writing them.

        Each file is written once, at the end. An edit inside another one is a part of it. If the context fails, nothing
        is written.

        Raises:
            ConfigError: Another process is editing for too long.
        """
        if self._is_edited:
            yield
            return
        try:
            with lock_edits(self._state) if self._state is not None else nullcontext():
                self._is_edited = True
                try:
                    yield
                    for name, record in self._edited.items():
                        self._write(name, record)
                finally:
                    self._is_edited = False
                    self._edited.clear()
        except TimeoutError as error:
            text = f"What you have decided cannot be stored: {error.filename}: {error.strerror}."
            raise ConfigError(text, "Check whether another chat hangs.", path=error.filename) from None

    @property
    def is_saved(self) -> bool:
        """Whether all that was written is in files, and not only in memory because they cannot be written."""
        return self._folder is None or not self._memory

    def find_accepted(self, server: ServerConfig, values: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the reach that the user accepted for a server with these values; None if it was not accepted."""
        record = self.read_record(server)
        key = self._read_key() if "accepted" in record else None
        if key is None or record.get("accepted") != _hash_with_key(key, values):
            return None
        reach = record.get("reach")
        return reach if isinstance(reach, dict) else {}

    def accept_server(self, server: ServerConfig, values: Mapping[str, Any], reach: Mapping[str, Any]) -> None:
        """Record that the user accepted how the server is started.

        Args:
            server: The server.
            values: Everything that decides what runs; stored as a keyed hash, since it may contain secrets.
            reach: What the process may access.
        """
        with self.edit():
            if (key := self._read_key()) is None:
                key = os.urandom(32)
                self.write_file(_KEY_FILE, {"key": key.hex()})
            accepted = {"accepted": _hash_with_key(key, values), "reach": dict(reach)}
            self.write_record(server, {**self.read_record(server), **accepted})

    def _read_key(self) -> bytes | None:
        """Return the key of the hashes; None before the first acceptance."""
        text = self.read_file(_KEY_FILE).get("key")
        try:
            return bytes.fromhex(text) if isinstance(text, str) and len(text) == 64 else None
        except ValueError:
            return None

    def read_record(self, server: ServerConfig) -> dict[str, Any]:
        """Return the record of a server; empty if it is missing or damaged.

        Raises:
            ConfigError: The file cannot be read or is not owned by the user.
        """
        return self.read_file(_file_name(server)) if self._may_have(f"{server.name}-") else {}

    def write_record(self, server: ServerConfig, record: dict[str, Any]) -> None:
        """Replace the record of a server."""
        self.write_file(_file_name(server), {"server": server.name, "folder": _directory_of(server), **record})

    def forget_server(self, server: ServerConfig) -> None:
        """Empty the record of a server: its acceptance, the pins of its tools, and what its sandbox allows."""
        with self.edit():
            if self.read_record(server):
                self.write_file(_file_name(server), {})

    def read_rules(self) -> dict[str, list[str]]:
        """Return the approval rules for the current directory: "allow" and "deny", each a list of patterns."""
        record = self.read_file(_rules_file_name()) if self._may_have(_RULES_PREFIX) else {}
        return {
            key: [pattern for pattern in record.get(key, ()) if isinstance(pattern, str)] for key in ("allow", "deny")
        }

    def write_rules(self, rules: Mapping[str, list[str]]) -> None:
        """Replace the approval rules for the current directory."""
        self.write_file(_rules_file_name(), {"folder": find_working_folder(), **rules})

    def change_rule(self, action: str, pattern: str) -> None:
        """Store a rule for the current directory: "allow" or "deny" a pattern, or "forget" it."""
        with self.edit():
            before = self.read_rules()
            rules = {kind: [rule for rule in patterns if rule != pattern] for kind, patterns in before.items()}
            if action in rules:
                rules[action].append(pattern)
            if rules != before:
                self.write_rules(rules)

    def _may_have(self, prefix: str) -> bool:
        """Return whether a file whose name begins so may exist; the rest of a name is a hash, which takes 2 ms."""
        names = [*self._memory, *self._edited]
        try:
            if self._folder is not None:
                with open_folder(self._folder) as folder:
                    names += os.listdir(folder)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:
            return True  # the reader of the file raises it with the path
        return any(name.startswith(prefix) for name in names)

    def read_file(self, name: str) -> dict[str, Any]:
        """Return the JSON object in a file of the store; empty if it is missing or damaged.

        Raises:
            ConfigError: The file cannot be read or is not owned by the user.
        """
        if self._folder is None or name in self._edited or name in self._memory:
            return self._edited.get(name) or self._memory.get(name, {})
        path = os.path.join(self._folder, name)
        try:
            with open_folder(self._folder):
                return _read_object(path)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            text = f"The record of accepted servers cannot be read: {path}: {error.strerror}."
            raise ConfigError(text, "Remove it if it is a link or not your file.") from None

    def write_file(self, name: str, record: dict[str, Any]) -> None:
        """Replace a file, at the end of an `edit` if one is open."""
        with self.edit():
            self._edited[name] = record

    def _write(self, name: str, record: dict[str, Any]) -> None:
        """Replace a file atomically; if that fails, keep the record in memory until the program ends."""
        data = json.dumps(record, ensure_ascii=False, indent=1).encode(errors="surrogatepass")
        try:
            if self._folder is None:
                raise OSError
            make_folder(self._folder)
            with open_folder(self._folder) as folder:
                replace_in_folder(folder, name, data)
            self._memory.pop(name, None)
        except OSError:
            self._memory[name] = record


def _read_object(path: str) -> dict[str, Any]:
    """Return the JSON object in a private file; empty if it is damaged. A file that is as it was is parsed once."""
    with open(open_private(path, os.O_RDONLY), "rb") as file:
        status = os.fstat(file.fileno())
        identity = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
        known = _PARSED.get(path)
        if known and known[0] == identity:
            return known[1]
        try:
            record = json.loads(file.read(_MAX_FILE_BYTES))
        except (ValueError, RecursionError):
            record = {}
    record = record if isinstance(record, dict) else {}
    if time.time_ns() - status.st_mtime_ns > _SETTLED_NS:
        _PARSED[path] = identity, record
    return record


def _directory_of(server: ServerConfig) -> str:
    """Return the directory whose file defines the server; "" for the user's own servers."""
    return find_working_folder() if is_project(server) else ""


def _file_name(server: ServerConfig) -> str:
    return f"{server.name}-{hash_value([_directory_of(server), server.name])[:16]}.json"


def _rules_file_name() -> str:
    return f"{_RULES_PREFIX}{hash_value(find_working_folder())[:16]}.json"


def refusal_error(server: ServerConfig) -> ConfigError:
    """Build the error that says what a server would run and how to accept it."""
    what = " ".join([find_command_path(server), *server.args]) if server.command else server.url
    return ConfigError(
        f'Server "{server.name}" ({what}) is defined by {server.source} in this folder, and you have not accepted it in'
        " its present form.",
        f"Run: rkllm-chat mcp trust {server.name}. Or give the file with --config, or set {TRUST_VARIABLE}=1 if you"
        " trust every folder.",
        server=server.name,
        path=server.source,
        accept=f"rkllm-chat mcp trust {server.name}",
    )
