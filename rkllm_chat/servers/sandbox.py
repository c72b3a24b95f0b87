"""A server's sandbox: bubblewrap, with a file system, processes and a network of its own. It starts no server.

What is denied: home, other folders, /etc but for what programs need, other processes, this program's environment,
terminal and files, and the network unless `network = true`. What is left: `reachable.py` says which files; /tmp, the
home folder and /dev/shm are empty and in memory. It ends with this program, whatever that dies of.

`network` that is not given: no, but for package runners (npx, uvx), which cannot fetch what they run without one.

bubblewrap is started with the server's own few variables: what `--clearenv` takes away still stands in
/proc/1/environ (measured, 0.8.0). Its own options differ from release to release and a kernel may forbid all of it, so
both are tried, once for each start of the machine: what worked is kept in a file (27 ms, measured).

What it does not do: it filters no system calls, bounds no memory (a kernel in need ends the server before the chat,
by oom_score_adj), and does not choose among addresses: with a network, a server reaches whatever listens on this
machine. Package runners share one cache, which each may change for the next.

Landlock instead, where there is no bubblewrap: not done. The kernels of RK3588 boards are built without it, and it
neither hides processes nor stops UDP; it would be a second sandbox that holds less and is tested by fewer.
"""

from __future__ import annotations

import json
import os

from ..errors import ConnectError
from ..places import find_state, list_places
from .programs import OWN_COMMAND, SANDBOX_VARIABLE, find_program
from .reachable import SYSTEM, Reach, is_within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..config import ServerConfig
    from .programs import Start

PROBE_S = 5.0
KEPT_PROBE = "bubblewrap.json"
ALWAYS = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
)
IF_KNOWN = ("--disable-userns", "--size")
NO_NETWORK = "--unshare-net"
MEMORY_BYTES = 512 << 20
"""Of each folder in memory: /tmp, home, /dev/shm."""

LIMITS = """
ulimit -c 0
ulimit -f 8388608
ulimit -n 4096
ulimit -u 4096 || ulimit -p 4096
echo 500 >/proc/self/oom_score_adj
"""
"""No core dumps, files of at most 4 GiB (blocks of 512 bytes), 4096 open files, 4096 processes and threads of the user;
where memory is short it goes first. A limit that is lower already stays: who is not root cannot raise it."""
ENTER = f'{{ {LIMITS} }} 2>/dev/null; exec "$@"'

SETTINGS = (
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "timezone", "locale.alias"),
    *("resolv.conf", "hosts", "host.conf", "nsswitch.conf", "gai.conf", "protocols", "services", "mime.types"),
    *("ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf", "pki/ca-trust", "pki/tls/certs", "pki/tls/cert.pem"),
    *("ca-certificates", "crypto-policies", "passwd", "group", "gitconfig", "fonts", "os-release"),
)
"""What programs need of /etc, and nothing secret."""
SECRETS = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".npmrc", ".pypirc", ".git-credentials"),
    *(".config/gcloud", ".config/gh", ".config/rkllm-chat", ".mcp.json", ".local/share/keyrings", ".password-store"),
)
"""What stays hidden of a home folder that is named as a whole."""
DENIALS = ("Ip:OutNoRoutes", "Ip6OutNoRoutes", "Tcp:AttemptFails", "Udp:NoPorts", "Udp6NoPorts")
INSTALL = 'Install it (apt install bubblewrap), or say sandbox = "off".'


class Sandbox:
    """What a server may reach. `missing` says why there is no sandbox although one was wanted, "" if there is one."""

    def __init__(self, name: str, missing: str = "") -> None:
        self.name, self.missing = name, missing
        self.has_network = True
        self.reads: list[str] = []
        self.writes: list[str] = []
        self._told = 0

    @property
    def hint(self) -> str:
        """For a server that failed: what it could not reach, and how to allow it."""
        if self.missing:
            return ""
        network = "with a network" if self.has_network else "without a network"
        written = ", ".join(["/tmp", *self.writes])
        more = "" if self.has_network else "network = true, "
        return f"It ran in a sandbox {network}, and could write {written}: {more}write = [...] or sandbox changes that."

    def explain_denial(self, pids: Iterable[int], text: str) -> str:
        """What a server that complains in a text ran into, "" if it was not the sandbox. `pids` are its processes."""
        if self.missing:
            return ""
        before, self._told = self._told, 0 if self.has_network else max(map(count_denials, pids), default=0)
        if self._told > before:
            return f'The sandbox of "{self.name}" has no network: network = true gives it one.'
        if any(word in text for word in ("EROFS", "Read-only file system", "read-only file system")):
            return f'The sandbox of "{self.name}" lets it write {", ".join(["/tmp", *self.writes])} alone: see write.'
        return ""


def enclose(server: ServerConfig, start: Start, roots: Iterable[str]) -> None:
    """Puts a start into a sandbox, or says in it why there is none. Raises ConnectError where there must be one."""
    options, problem = find_bubblewrap()
    start.sandbox = Sandbox(server.name, problem)
    if problem:
        if is_demanded(server):
            text = f'Server "{server.name}" is to run in a sandbox, and cannot: {problem}.'
            raise ConnectError(text, INSTALL, server=server.name, phase="start")
        return
    home = os.path.normpath(os.environ.get("HOME") or "/nonexistent")
    folder = os.path.abspath(start.folder or ".")
    reach = Reach(server, start.command, folder, home)
    reach.take_roots(roots)
    if server.command == OWN_COMMAND:
        reach.reads.add(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    sandbox = start.sandbox
    sandbox.has_network = bool(reach.runner) if server.network is None else server.network
    sandbox.reads, sandbox.writes = sorted(reach.reads), sorted(reach.writes)
    own_home = os.path.normpath(start.environment.get("HOME") or home)
    if "TMPDIR" not in server.env:
        start.environment["TMPDIR"] = "/tmp"
    wrapped = [*options[:1], *ALWAYS, *([] if sandbox.has_network else [NO_NETWORK])]
    wrapped += [option for option in options[1:] if option != "--size"]
    wrapped += lay_out_system(memory := Memory("--size" in options))
    wrapped += lay_out_files(reach, folder, own_home, memory)
    wrapped += [word for path in find_secrets(server, reach, home) for word in hide(path, memory)]
    wrapped += ["--remount-ro", "/", "--chdir", folder, "--", *start.command]
    start.command = ["/bin/sh", "-c", ENTER, "sh", *wrapped]


def is_demanded(server: ServerConfig) -> bool:
    return server.sandbox == "on" or (server.sandbox == "auto" and os.environ.get(SANDBOX_VARIABLE) == "on")


class Memory:
    """Writes the arguments for a folder in memory."""

    def __init__(self, knows_size: bool) -> None:
        self._size = ["--size", str(MEMORY_BYTES)] if knows_size else []

    def at(self, path: str) -> list[str]:
        return [*self._size, "--tmpfs", path]


def lay_out_system(memory: Memory) -> list[str]:
    """The arguments for what every program needs."""
    arguments: list[str] = []
    for path in SYSTEM:
        if os.path.islink(path):
            arguments += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            arguments += ["--ro-bind", path, path]
    for name in SETTINGS:
        if os.path.exists(path := f"/etc/{name}"):
            arguments += ["--ro-bind", path, path]
    arguments += ["--ro-bind-try", "/sys/devices/system/cpu", "/sys/devices/system/cpu"]
    return [*arguments, "--proc", "/proc", "--dev", "/dev", *memory.at("/dev/shm"), *memory.at("/tmp")]


def lay_out_files(reach: Reach, folder: str, home: str, memory: Memory) -> list[str]:
    """The arguments for what this server needs: outer folders first, home empty unless it is named, as is `folder`."""
    binds = {os.path.realpath(path): "--ro-bind" for path in reach.reads}
    binds |= {os.path.realpath(path): "--bind" for path in reach.writes}
    places = {path: [how, path, path] for path, how in binds.items() if not is_within(path, SYSTEM)}
    for path in reach.reads | reach.writes:  # a name that leads there over links
        if not is_within(path, (*binds, *SYSTEM)):
            real = os.path.realpath(path)
            places[path] = [binds[real], real, path]
    written = [path for path, how in binds.items() if how == "--bind"]
    kept = {path: words for path, words in places.items() if path in written or not is_within(path, written)}
    if not is_within(home, (*binds, *SYSTEM, "/proc", "/dev", "/etc")) and home not in ("/", "/tmp"):
        kept[home] = memory.at(home)
    if not is_within(folder, (*kept, *SYSTEM)):
        kept[folder] = ["--dir", folder]
    return [word for path in sorted(kept, key=lambda path: path.split("/")) for word in kept[path]]


def find_secrets(server: ServerConfig, reach: Reach, home: str) -> Iterator[str]:
    """What lies in a folder that is let in and is not for servers: configurations with their secrets, our own state."""
    let_in = [os.path.realpath(path) for path in reach.reads | reach.writes]
    named = [os.path.realpath(os.path.join(os.getcwd(), os.path.expanduser(path))) for path in server.write or ()]
    ours = [*list_places(os.environ), server.source, os.environ.get("RKLLM_CHAT_CONFIG", ""), find_state()]
    paths = [*filter(None, ours), *(os.path.join(home, name) for name in SECRETS)]
    for path in sorted({os.path.realpath(path) for path in paths}):
        if os.path.exists(path) and is_within(path, let_in) and path not in named:
            yield path


def hide(path: str, memory: Memory) -> list[str]:
    return memory.at(path) if os.path.isdir(path) else ["--ro-bind", "/dev/null", path]


def find_bubblewrap() -> tuple[list[str], str]:
    """bubblewrap's path with those of IF_KNOWN that work here, and "" or why it cannot be used."""
    program = find_program("bwrap", None)
    if program is None:
        return [], "bubblewrap is not installed"
    program = os.path.abspath(program)
    key = describe_machine(program)
    kept = read_kept(key)
    if kept is not None:
        return kept, ""
    options, problem = probe(program)
    if not problem:
        keep({"key": key, "options": options})
    return options, problem


def describe_machine(program: str) -> list[str]:
    """What must be equal for what worked to work again."""
    status = os.stat(program)
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
    except OSError:
        boot = ""
    return [program, str(status.st_mtime_ns), str(status.st_size), os.uname().release, boot, str(os.getuid())]


def read_kept(key: list[str]) -> list[str] | None:
    try:
        with open(os.path.join(find_state(), KEPT_PROBE), encoding="utf-8") as file:
            kept = json.load(file)
        options = kept["options"]
        is_ours = kept["key"] == key and options[0] == key[0] and set(options[1:]) <= set(IF_KNOWN)
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return options if is_ours else None


def keep(found: dict[str, list[str]]) -> None:
    """Written beside and moved into place; where that cannot be, it is tried again next time."""
    folder = find_state()
    beside = os.path.join(folder, f".{KEPT_PROBE}.{os.getpid()}")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(file, "w", encoding="utf-8") as opened:
            json.dump(found, opened)
        os.replace(beside, os.path.join(folder, KEPT_PROBE))
    except OSError:
        return


def probe(program: str) -> tuple[list[str], str]:
    """Tries bubblewrap with all that it knows, and without what a kernel may refuse."""
    said = run([program, "--help"])[1]
    known = [option for option in IF_KNOWN if f"{option} " in said or f"{option}\n" in said]
    problem = ""
    for options in ([program, *known], [program, *(one for one in known if one != "--disable-userns")]):
        more = [option for option in options[1:] if option != "--size"]
        layout = lay_out_system(Memory("--size" in options))
        code, words = run([program, *ALWAYS, NO_NETWORK, *more, *layout, "--", "/bin/sh", "-c", ":"])
        if code == 0:
            return options, ""
        problem = f"bubblewrap cannot work here ({(words.strip() or f'it exited with {code}').splitlines()[0][:300]})"
    return [], problem


def run(command: Sequence[str]) -> tuple[int, str]:
    """A short program's exit code, and what it said."""
    import subprocess

    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROBE_S,
            env={"PATH": os.environ.get("PATH", os.defpath)},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, done.stdout.decode("utf-8", errors="replace")


def count_denials(pid: int) -> int:
    """How often something in a process's empty network was sent where nobody is, as the kernel counts it (snmp(5))."""
    counts: dict[str, str] = {}
    lines: list[list[str]] = []
    try:
        with open(f"/proc/{pid}/net/snmp", encoding="ascii") as file:
            lines = [line.split() for line in file]
        with open(f"/proc/{pid}/net/snmp6", encoding="ascii") as file:
            counts |= dict(line.split()[:2] for line in file)
    except (OSError, ValueError):  # it has gone, or there is no IPv6
        pass
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        counts |= {f"{names[0]}{name}": value for name, value in zip(names[1:], values[1:], strict=False)}
    return sum(int(counts.get(name, "0")) for name in DENIALS)
