"""Run a server in a bubblewrap sandbox with its own file system, processes and network. Starts no server itself.

Denied are the home folder, other folders, /etc except for what programs need, other processes, this program's
environment, terminal and files, and the network unless `network = true`. `sandbox_paths.py` decides which files are
available; /tmp, the home folder and /dev/shm are empty and in memory. The sandbox ends with this program, however that
ends.

If `network` is not set, there is none, except for package runners (npx, uvx), which cannot fetch packages without one,
and for servers that are known to need it (`config/sandbox_rules.py`).

bubblewrap is started with the server's own few variables, because variables removed by `--clearenv` remain in
/proc/1/environ (measured, 0.8.0). Its options differ between releases and a kernel may forbid it altogether, so both
are probed once per boot of the machine, and the result is cached in a file (27 ms, measured).

`system_calls.py` filters system calls, and `protected_paths.py` protects files inside available folders. Run as root,
a server stays root to the kernel, though without capabilities, since the folders that it may write belong to root; what
the kernel lets root write, below /proc, is therefore read-only.

Limits: it does not bound memory (under memory pressure the kernel ends the server before the chat, by oom_score_adj),
and does not restrict addresses: with a network, a server can reach everything that listens on this machine. Package
runners share one cache, which each may change for the next.

Landlock is no alternative where bubblewrap is missing: the kernels of RK3588 boards are built without it, and it
neither hides processes nor stops UDP. It would be a second, weaker and less tested sandbox.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from ...config.files import find_data_folder, find_own_folder, find_state_folder, list_config_paths
from ...config.project_trust import hash_value, is_project
from ...config.sandbox_rules import KnownServer, find_allowance, find_known
from ...config.servers import ServerConfig
from ...core.errors import ConnectError
from ...core.file_writes import replace_file
from ...core.private_files import make_folder, read_private
from ...core.programs import PROGRAM_NAME, find_installed
from ..roots import is_within
from .network_variables import CERTIFICATE_FILES
from .protected_paths import find_missing, find_read_only, find_source_folder, mount_protected
from .sandbox_paths import SYSTEM_PATHS, SandboxPaths
from .start import IS_MACOS, NO_BUBBLEWRAP, SANDBOX_VARIABLE, Sandbox, StartPlan, opened_filter
from .system_calls import build_filter

_PROBE_S = 5.0
_PROBE_CACHE = "bubblewrap.json"
_MAX_CACHE_BYTES = 1 << 16
_FILTER = "--seccomp"
_ALWAYS = (
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--die-with-parent",
    "--new-session",  # no controlling terminal, into which a server could type (TIOCSTI)
    "--cap-drop",
    "ALL",
)
_IF_KNOWN = ("--disable-userns", "--size", _FILTER)
_NO_NETWORK = "--unshare-net"
_NOT_ROOT = ("--uid", "65534", "--gid", "65534")
"""In a sandbox, root gets the ids of `nobody`. To the kernel it is root without capabilities: it writes its files."""
_MEMORY_BYTES = 512 << 20
"""Limit of each folder in memory: /tmp, home, /dev/shm."""

_LIMITS = """
ulimit -c 0
ulimit -f 8388608
ulimit -n 4096
ulimit -u 4096 || ulimit -p 4096
echo 500 >/proc/self/oom_score_adj
"""
"""No core dumps, files of at most 4 GiB (blocks of 512 bytes), 4096 open files, 4096 processes and threads of the user,
and a high score for the kernel's OOM killer. A limit that is lower already stays, because only root can raise it.
"""
_ENTER = f'{{ {_LIMITS} }} 2>/dev/null; exec "$@"'

_KERNEL_SETTINGS = ("sys", "irq", "bus", "fs", "scsi", "acpi", "driver", "dynamic_debug", "mtrr", "sysrq-trigger")
_KEY_LISTS = ("keys", "key-users")
_SETTINGS = (
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    "localtime",
    "timezone",
    "locale.alias",
    "resolv.conf",
    "hosts",
    "host.conf",
    "nsswitch.conf",
    "gai.conf",
    "protocols",
    "services",
    "mime.types",
    "ssl/certs",
    "ssl/cert.pem",
    "ssl/openssl.cnf",
    "pki/ca-trust",
    "pki/tls/certs",
    "pki/tls/cert.pem",
    "ca-certificates",
    "crypto-policies",
    "passwd",
    "group",
    "gitconfig",
    "fonts",
    "os-release",
)
"""Files in /etc that programs need, none of them secret."""
_OWN_CONFIG = ".config/rkllm-chat"
SECRET_PATHS = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".config/gcloud",
    ".config/gh",
    _OWN_CONFIG,
    ".mcp.json",
    ".local/share/keyrings",
    ".password-store",
)
"""Hidden even if a home folder is made available as a whole."""
_OFF_HINT = 'Set sandbox = "off".' if IS_MACOS else 'Install it (apt install bubblewrap), or set sandbox = "off".'


def wrap_in_sandbox(server: ServerConfig, start: StartPlan, roots: Iterable[str]) -> None:
    """Wrap the command of `start` in a sandbox, or record in it why there is none.

    Args:
        server: The server's configuration.
        start: The plan, changed in place.
        roots: Folders that the server learns of and may read.

    Raises:
        ConnectError: A sandbox is required but unavailable.
    """
    bubblewrap, problem = find_bubblewrap()
    start.sandbox = sandbox = Sandbox(server.name, problem)
    if bubblewrap is None:
        if _is_required(server):
            text = f'Server "{server.name}" requires a sandbox, but there is none: {problem}.'
            raise ConnectError(text, _OFF_HINT, server=server.name, phase="start")
        return
    home = os.path.normpath(os.environ.get("HOME") or "/nonexistent")
    folder = os.path.abspath(start.folder or ".")
    known, allowed = find_known(start.command), find_allowance(server)
    paths = SandboxPaths(server, start.command, folder, home, known)
    paths.add_roots(roots)
    if server.command == PROGRAM_NAME:
        paths.reads.add(find_source_folder())
    if known:
        _grant_needs(server, start, known, paths)
        if server.write is None and not is_project(server):
            start.new_files = _list_new_files(server, known, folder, home)
            paths.writes.update(start.new_files)
    # a folder that has become a link is not followed: a server may have put it there
    paths.writes.update(path for path in allowed.write if os.path.exists(path) and os.path.realpath(path) == path)
    sandbox.has_network = allowed.network or _needs_network(server, known, paths)
    if sandbox.has_network:
        paths.add_readable(os.environ.get(name, "") for name in CERTIFICATE_FILES)
    sandbox.source, sandbox.folder, sandbox.words = server.source, folder, server.args
    sandbox.may_offer_network = server.network is not False
    sandbox.reads, sandbox.writes = sorted(paths.reads), sorted(paths.writes)
    sandbox.filters_calls, start.system_calls = bool(bubblewrap.filter), bubblewrap.filter
    if "TMPDIR" not in server.env:
        start.environment["TMPDIR"] = "/tmp"
    # a shell sets the limits: posix_spawn cannot, and a function between fork and exec may deadlock
    start.wrapper = ["/bin/sh", "-c", _ENTER, "sh", bubblewrap.program]
    start.command = [
        *bubblewrap.isolate(sandbox.has_network),
        *_mount_system(bubblewrap),
        *_mount_files(bubblewrap, paths, folder, os.path.normpath(start.environment.get("HOME") or home)),
        *_protect(bubblewrap, server, start, paths, home),
        "--remount-ro",
        "/",
        "--chdir",
        folder,
        "--",
        *start.command,
    ]


def _grant_needs(server: ServerConfig, start: StartPlan, known: KnownServer, paths: SandboxPaths) -> None:
    """Give a known server the files that it needs, unless its entry says what it may write; name it in the plan."""
    needs_files = server.write is None and bool(known.files or known.variables)
    if start.sandbox and (needs_files or (server.network is None and known.network)):
        start.sandbox.known_name, start.sandbox.known_reason = known.names[0], known.reason
    if server.write is None and not paths.runner:  # a runner's cache can be written
        paths.writes.update(_keep_files(server, start, known))
        _hide_programs(start, known)


def _list_new_files(server: ServerConfig, known: KnownServer, folder: str, home: str) -> list[str]:
    """Return the files of a known server that its entry names in the home folder and that do not exist yet.

    The home folder is not opened: what the server wrote there would be lost, and it would not know. Not of an entry in
    the current folder, which could name what a shell runs at its start.
    """
    named = (server.env[name] for name in known.variables if name in server.env)
    paths = [os.path.normpath(os.path.join(folder, os.path.expanduser(value))) for value in named]
    return [path for path in paths if os.path.dirname(path) == home and not os.path.lexists(path)]


def _needs_network(server: ServerConfig, known: KnownServer | None, paths: SandboxPaths) -> bool:
    if server.network is not None:
        return server.network
    return bool(paths.runner) or bool(known and known.network)


def _keep_files(server: ServerConfig, start: StartPlan, known: KnownServer) -> Iterator[str]:
    """Let a known server keep its files in a folder of its own, as it would keep them beside its program; yield that.

    A folder with a program is never writable. A file that is there already is copied once, before the start.
    """
    missing = {name: file for name, file in known.variables.items() if name not in server.env}
    if not missing:
        return
    owner = hash_value(os.path.abspath(server.source))[:8] if is_project(server) else "own"
    folder = os.path.join(find_data_folder(), "servers", f"{server.name}-{owner}")
    programs = [os.path.realpath(word) for word in start.command if os.path.isfile(word)]
    for name, file in missing.items():
        start.environment[name] = path = os.path.join(folder, file)
        start.kept_files[path] = [os.path.join(os.path.dirname(program), file) for program in programs]
    yield folder


def _hide_programs(start: StartPlan, known: KnownServer) -> None:
    """Leave the folders with programs that a known server must not find out of its PATH."""
    folders = start.environment.get("PATH", os.defpath).split(os.pathsep)
    kept = [path for path in folders if not any(os.path.exists(os.path.join(path, name)) for name in known.hides)]
    if len(kept) < len(folders):
        start.environment["PATH"] = os.pathsep.join(kept or [os.path.dirname(start.command[0])])


def _is_required(server: ServerConfig) -> bool:
    return server.sandbox == "on" or (server.sandbox == "auto" and os.environ.get(SANDBOX_VARIABLE) == "on")


class _Bubblewrap:
    """bubblewrap with the optional options that work here.

    Attributes:
        program: Its path.
        options: The optional options.
        filter: The filter of system calls, if it works here.
    """

    def __init__(self, program: str, options: list[str]) -> None:
        self.program, self.options = program, options
        self.filter = build_filter() if _FILTER in options else b""
        self._size = ["--size", str(_MEMORY_BYTES)] if "--size" in options else []

    def isolate(self, has_network: bool) -> list[str]:
        """Return the arguments that isolate a server from other processes and the network."""
        optional = [option for option in self.options if option not in ("--size", _FILTER)]
        user = _NOT_ROOT if os.getuid() == 0 else ()
        return [*_ALWAYS, *user, *([] if has_network else [_NO_NETWORK]), *optional]

    def mount_tmpfs(self, path: str) -> list[str]:
        """Return the arguments for an empty folder in memory."""
        return [*self._size, "--tmpfs", path]


def _mount_system(bubblewrap: _Bubblewrap) -> list[str]:
    """Return the arguments that mount what every program needs."""
    arguments: list[str] = []
    for path in SYSTEM_PATHS:
        if os.path.islink(path):
            arguments += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            arguments += ["--ro-bind", path, path]
    for name in _SETTINGS:
        if os.path.exists(path := f"/etc/{name}"):
            arguments += ["--ro-bind", path, path]
    arguments += ["--ro-bind-try", "/sys/devices/system/cpu", "/sys/devices/system/cpu"]
    return [
        *arguments,
        "--proc",
        "/proc",
        *_close_kernel_files(),
        "--dev",
        "/dev",
        *bubblewrap.mount_tmpfs("/dev/shm"),
        *bubblewrap.mount_tmpfs("/tmp"),
    ]


def _close_kernel_files() -> Iterator[str]:
    """Yield the arguments that close kernel settings, which root owns and may write without capabilities, and keys."""
    for name in _KERNEL_SETTINGS:
        yield from ("--ro-bind-try", f"/proc/{name}", f"/proc/{name}")
    for name in _KEY_LISTS:
        if os.path.exists(f"/proc/{name}"):
            yield from ("--ro-bind", "/dev/null", f"/proc/{name}")


def _mount_files(bubblewrap: _Bubblewrap, paths: SandboxPaths, folder: str, home: str) -> list[str]:
    """Return the arguments that mount what this server needs, outer folders first.

    The home folder is empty unless it is made available, and `folder` exists in any case.
    """
    mounts = _bind_paths(paths)
    available = [os.path.realpath(path) for path in paths.reads | paths.writes]
    if not is_within(home, (*available, *SYSTEM_PATHS, "/proc", "/dev", "/etc")) and home not in ("/", "/tmp"):
        mounts[home] = bubblewrap.mount_tmpfs(home)
    if not is_within(folder, (*mounts, *SYSTEM_PATHS)):
        mounts[folder] = ["--dir", folder]
    return [word for path in sorted(mounts, key=lambda path: path.split("/")) for word in mounts[path]]


def _bind_paths(paths: SandboxPaths) -> dict[str, list[str]]:
    """Return the arguments that bind each path, by its place in the sandbox.

    A path with symbolic links is bound at its target only, so that what is hidden there has no second name. What lies
    inside a writable path is not bound again.
    """
    options = {os.path.realpath(path): "--ro-bind" for path in paths.reads}
    options |= {os.path.realpath(path): "--bind" for path in paths.writes}
    binds = {path: [option, path, path] for path, option in options.items() if not is_within(path, SYSTEM_PATHS)}
    for path in sorted(paths.reads | paths.writes):
        if not is_within(path, (*binds, *SYSTEM_PATHS)):
            binds[path] = ["--symlink", os.path.realpath(path), path]
    writable = [path for path, option in options.items() if option == "--bind"]
    return {path: words for path, words in binds.items() if path in writable or not is_within(path, writable)}


def _protect(
    bubblewrap: _Bubblewrap, server: ServerConfig, start: StartPlan, paths: SandboxPaths, home: str
) -> list[str]:
    """Return the arguments that hide secrets and this program's state, and make other files read-only."""
    writable = [os.path.realpath(path) for path in paths.writes]
    available = [*writable, *map(os.path.realpath, paths.reads)]
    configured = [os.path.realpath(os.path.join(os.getcwd(), os.path.expanduser(path))) for path in server.write or ()]
    start.missing = find_missing(writable, (find_own_folder(), find_state_folder()))
    own_files = [*list_config_paths(os.environ), server.source, os.environ.get("RKLLM_CHAT_CONFIG", "")]
    secrets = [*filter(None, own_files), find_state_folder(), *(os.path.join(home, name) for name in SECRET_PATHS)]
    hidden = [path for path in map(os.path.realpath, secrets) if is_within(path, available) and path not in configured]
    read_only = [path for path in find_read_only(writable) if os.path.realpath(path) not in configured]
    return mount_protected(hidden, read_only, start.missing, writable, bubblewrap.mount_tmpfs)


def find_bubblewrap() -> tuple[_Bubblewrap | None, str]:
    """Return bubblewrap, or None and why it is unusable."""
    program = find_installed("bwrap")
    if program is None:
        return None, NO_BUBBLEWRAP
    key = _describe_machine(program)
    cached = _read_cached_probe(key)
    if cached is not None:
        return _Bubblewrap(program, cached), ""
    bubblewrap, problem = _probe_bubblewrap(program)
    if bubblewrap:
        _cache_probe({"key": key, "options": bubblewrap.options})
    return bubblewrap, problem


def _describe_machine(program: str) -> list[str]:
    """Return everything that a cached probe depends on, the options that were probed included."""
    status = os.stat(program)
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            boot = file.read().strip()
    except OSError:
        boot = ""
    machine = [program, str(status.st_mtime_ns), str(status.st_size), os.uname().release, boot, str(os.getuid())]
    return [*machine, *_IF_KNOWN]


def _read_cached_probe(key: list[str]) -> list[str] | None:
    try:
        cached = json.loads(read_private(os.path.join(find_state_folder(), _PROBE_CACHE), _MAX_CACHE_BYTES))
        options = cached["options"]
        is_valid = cached["key"] == key and set(options) <= set(_IF_KNOWN)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return options if is_valid else None


def _cache_probe(probe: dict[str, list[str]]) -> None:
    """Cache a probe result, atomically; on failure it is probed again next time."""
    path = os.path.join(find_state_folder(), _PROBE_CACHE)
    with suppress(OSError):
        make_folder(os.path.dirname(path))
        replace_file(path, json.dumps(probe).encode(), is_durable=False)


def _probe_bubblewrap(program: str) -> tuple[_Bubblewrap | None, str]:
    """Run bubblewrap with all options it knows, then without those that a kernel may refuse."""
    help_text = _run_probe([program, "--help"])[1]
    known = [option for option in _IF_KNOWN if f"{option} " in help_text or f"{option}\n" in help_text]
    problem = ""
    # some kernels and containers refuse one of these options; the other one stays
    for refused in ((), ("--disable-userns",), (_FILTER,), ("--disable-userns", _FILTER)):
        bubblewrap = _Bubblewrap(program, [option for option in known if option not in refused])
        arguments = [*bubblewrap.isolate(has_network=False), *_mount_system(bubblewrap), "--", "/bin/sh", "-c", ":"]
        with opened_filter(bubblewrap.filter) as (filter_options, files):
            code, output = _run_probe([program, *filter_options, *arguments], files)
        if code == 0:
            return bubblewrap, ""
        cause = (output.strip() or f"it exited with {code}").splitlines()[0][:300]
        problem = f"bubblewrap does not work here ({cause})"
    return None, problem


def _run_probe(command: Sequence[str], files: Sequence[int] = ()) -> tuple[int, str]:
    """Run a short program, which inherits files; return its exit code and output."""
    import subprocess

    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PROBE_S,
            env={"PATH": os.environ.get("PATH", os.defpath)},
            pass_fds=files,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, done.stdout.decode("utf-8", errors="replace")
