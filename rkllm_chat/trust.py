"""What the user has accepted, kept in small files: 0600, in a folder that is 0700, and no link is followed.

Whoever made a folder may be anybody, so a server that its files name is started when the user has said so. What was
accepted is a hash of how it is started: of the very values that it is started with. It asks nobody.

The one-shot commands read it before they start a server, which is why it imports so little.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress

from .entries import SERVER_DEFAULTS
from .errors import ConfigError
from .places import TRUST_VARIABLE
from .servers.programs import OWN_COMMAND, find_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, BinaryIO

    from .config import ServerConfig

FOLDER = "trust"
"""Beside sessions and logins, in the folder of this program's state."""
UNCOUNTED = (
    *("env", "headers", "oauth", "cwd", "source", "is_project", "trust", "enabled", "tools_allow", "tools_deny"),
    *("timeout_s", "connect_s", "ping_s", "idle_s", "log_level"),
)
"""What a server may change without being another one; of env, headers and oauth the names count."""
LOADERS = frozenset(
    (
        *("PATH", "HOME", "ENV", "BASH_ENV", "SHELLOPTS", "IFS", "PROMPT_COMMAND", "XDG_CONFIG_HOME", "GCONV_PATH"),
        *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONBREAKPOINT", "PYTHONPYCACHEPREFIX"),
        *("NODE_OPTIONS", "NODE_PATH", "PERL5LIB", "PERL5OPT", "RUBYLIB", "RUBYOPT", "CLASSPATH", "LOCPATH"),
        *("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_EXEC_PATH"),
    )
)
LOADER_FAMILIES = ("LD_", "DYLD_")
"""Names of environment variables that decide which code programs load. Their values are shown: none is a secret."""
LARGEST = 16 << 20
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def is_board(server: ServerConfig) -> bool:
    """Whether it is the board server that ships, about this folder at most: nothing that it can be told does harm."""
    if server.command != OWN_COMMAND or server.url or server.env or server.cwd:
        return False
    match tuple(server.args):
        case ("serve", "board"):
            return True
        case ("serve", "board", "--folder", folder):
            here = os.path.realpath(".")
            return os.path.commonpath([here, os.path.realpath(os.path.expanduser(folder))]) == here
    return False


def is_wanted(server: ServerConfig) -> bool:
    return server.enabled and server.trust != "off"


def is_believed(server: ServerConfig) -> bool:
    """Whether its tools may change as they like: those of a trusted server, and ours, which change with a release.

    A server without command and URL lives in this process: whoever has it has written it.
    """
    is_ours = server.command == OWN_COMMAND and tuple(server.args[:1]) == ("serve",)
    return server.trust == "trusted" or is_ours or not (server.command or server.url)


def changes_loading(name: str) -> bool:
    """Whether an environment variable decides which code other programs load."""
    name = name.upper()
    return name in LOADERS or name.startswith(LOADER_FAMILIES)


def describe_start(server: ServerConfig) -> dict[str, Any]:
    """How a server is started or reached, as the files say it with their variables filled in. No secret is in it but
    what stands in `args` and `url`: of env, headers and oauth there are the names, and what changes loading whole.
    """
    told = {key: value for key, value in vars(server).items() if key not in UNCOUNTED}
    told = {key: value for key, value in told.items() if value != SERVER_DEFAULTS.get(key)}
    oauth = vars(server.oauth) if not isinstance(server.oauth, dict) else server.oauth
    names = {
        "env": [f"{name}={value}" if changes_loading(name) else name for name, value in sorted(server.env.items())],
        "headers": sorted(server.headers),
        "oauth": sorted(key for key, value in oauth.items() if value and key != "grant"),
    }
    told |= {key: value for key, value in names.items() if value}
    if server.command:
        told["cwd"] = os.path.abspath(os.path.expanduser(server.cwd)) if server.is_project else server.cwd
    return told


def find_absolute(server: ServerConfig) -> str:
    """Where a server's command is, in full; as it is written where there is no such program."""
    command = os.path.expanduser(server.command)
    found = find_program(command, server.env.get("PATH"))
    return os.path.abspath(found) if found else command


def hash_of(value: Any) -> str:
    import hashlib  # 2 ms, which most one-shot commands need not spend

    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


class Accepted:
    """The files below a folder of state, one for a server of a folder or of the user; None keeps it in memory."""

    def __init__(self, state: str | None) -> None:
        self._folder = os.path.join(state, FOLDER) if state is not None else None
        self._memory: dict[str, dict[str, Any]] = {}

    def has_any(self) -> bool:
        return bool(self._memory) or (self._folder is not None and os.path.isdir(self._folder))

    def may_start(self, server: ServerConfig) -> bool:
        """Whether a server may be started: the user's own, the board's, or one that he accepted as it is now."""
        if not server.is_project or is_board(server):
            return True
        return self.has_any() and self.read(server).get("accepted") == hash_of(describe_start(server))

    def check_start(self, server: ServerConfig) -> None:
        """Raises ConfigError where there is nobody to ask about a server that was not accepted."""
        if not self.may_start(server):
            raise refusal(server)

    def accept(self, server: ServerConfig) -> None:
        """Remembers that the user has accepted how a server is started."""
        self.write(server, {**self.read(server), "accepted": hash_of(describe_start(server))})

    def read(self, server: ServerConfig) -> dict[str, Any]:
        """What is known of a server; nothing where the file is damaged. Raises ConfigError if it is not the user's."""
        return self.read_file(place_of(server))

    def write(self, server: ServerConfig, record: dict[str, Any]) -> None:
        self.write_file(place_of(server), {"server": server.name, "folder": folder_of(server), **record})

    def read_rules(self) -> dict[str, list[str]]:
        """The rules that the user keeps for this folder: "allow" and "deny", each a list of patterns."""
        found = self.read_file(place_of_rules()) if self.has_any() else {}
        return {word: [one for one in found.get(word, ()) if isinstance(one, str)] for word in ("allow", "deny")}

    def write_rules(self, rules: Mapping[str, list[str]]) -> None:
        self.write_file(place_of_rules(), {"folder": os.getcwd(), **rules})

    def read_file(self, name: str) -> dict[str, Any]:
        if self._folder is None or name in self._memory:
            return self._memory.get(name, {})
        try:
            with open_private(self._folder, name) as file:
                found = json.loads(file.read(LARGEST))
        except FileNotFoundError:
            return {}
        except (ValueError, RecursionError):
            return {}
        except OSError as error:
            text = f"What you have accepted cannot be read: {os.path.join(self._folder, name)}: {error.strerror}."
            raise ConfigError(text, "It must be a file of yours, and no link; remove it.") from None
        return found if isinstance(found, dict) else {}

    def write_file(self, name: str, record: dict[str, Any]) -> None:
        """Replaces a file in one step; where that cannot be, it is known for as long as this program runs."""
        data = json.dumps(record, ensure_ascii=False, indent=1).encode(errors="surrogatepass")
        try:
            if self._folder is None:
                raise OSError
            replace_private(self._folder, name, data)
        except OSError:
            self._memory[name] = record


def open_private(folder: str, name: str) -> BinaryIO:
    """Raises OSError, also for a link and for what is not a plain file of this user."""
    place = open_folder(folder)
    try:
        file = os.open(name, READ, dir_fd=place)
    finally:
        os.close(place)
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        os.close(file)
        raise PermissionError(1, "it is not a plain file of this user")
    if found.st_mode & 0o077:
        os.fchmod(file, 0o600)
    return open(file, "rb")


def open_folder(folder: str) -> int:
    place = os.open(folder, DIRECTORY)
    found = os.fstat(place)
    if found.st_uid != os.geteuid():
        os.close(place)
        raise PermissionError(1, "its folder is not of this user")
    if stat.S_IMODE(found.st_mode) != 0o700:
        os.fchmod(place, 0o700)
    return place


def replace_private(folder: str, name: str, data: bytes) -> None:
    """Writes a file whole or not at all. Raises OSError."""
    os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    place = open_folder(folder)
    beside = f".{name}.{os.urandom(8).hex()}"
    try:
        file = os.open(beside, CREATE, 0o600, dir_fd=place)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(file, view) :]
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(beside, name, src_dir_fd=place, dst_dir_fd=place)
        os.fsync(place)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside, dir_fd=place)
        raise
    finally:
        os.close(place)


def folder_of(server: ServerConfig) -> str:
    """The folder whose file names a server; "" for the user's own, which is the same one everywhere."""
    return os.getcwd() if server.is_project else ""


def place_of(server: ServerConfig) -> str:
    return f"{server.name}-{hash_of([folder_of(server), server.name])[:16]}.json"


def place_of_rules() -> str:
    return f"rules-of-{hash_of(os.getcwd())[:16]}.json"


def refusal(server: ServerConfig) -> ConfigError:
    """Why a server is not started, what it would run, and how to accept it."""
    what = " ".join([find_absolute(server), *server.args]) if server.command else server.url
    return ConfigError(
        f'Server "{server.name}" ({what}) is named by {server.source} of this folder, and you have not accepted it.',
        f"Run: rkllm-chat trust {server.name}. Or name the file with --config, or set {TRUST_VARIABLE}=1 where every"
        " folder is yours.",
        server=server.name,
        path=server.source,
        accept=f"rkllm-chat trust {server.name}",
    )
