"""Approve servers of project files before they start: show how each would be started and remember the answer.

The same review of the settings, read once, is shown, remembered and used to start, so that what was approved is what
runs.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ..backends.project_files import review_project_files
from ..config.accepted_files import Review, accept_files
from ..config.policy import OF_FOLDER, find_held_rules, find_named_rules
from ..config.project_trust import (
    TrustStore,
    hash_value,
    is_enabled,
    is_loader_variable,
    needs_acceptance,
    refusal_error,
)
from ..config.servers import BOARD_SERVER
from ..config.settings import ServerConfig, Settings
from ..core.errors import ChatError, ConfigError
from ..core.i18n import Words
from ..core.programs import CONTAINER_PROGRAMS, PACKAGE_RUNNERS, PROGRAM_NAME
from ..core.sanitize import escape_visibly, sanitize_line
from ..mcp_client.acceptance import (
    MASK,
    ReviewedStart,
    accept,
    check_start,
    contains,
    is_accepted,
    is_secret_value,
    mask_value,
    resolve_path,
    review_start,
)
from .elicitation import UserPrompts

_TABLES = ("env", "headers", "oauth")
_EFFECTIVE = ("sandbox", "write", "network")
"""Settings that are shown by their effect."""
_USES = ("enabled", "tools_allow", "tools_deny")
"""Settings that are shown if they are no defaults, although they do not decide what runs."""
_SCREEN_ROWS, _SCREEN_COLUMNS = 20, 80
"""A description that needs more rows is followed by a summary that needs fewer."""
_WHOLE_CHARS, _END_CHARS = 120, 40
_MAX_WARNINGS = 6
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "fish", "cmd", "cmd.exe", "powershell", "pwsh", "busybox"))
_PRIVILEGE_TOOLS = frozenset(("sudo", "doas", "pkexec", "su"))
_WRAPPERS = frozenset(
    (
        "env",
        "nice",
        "ionice",
        "chrt",
        "taskset",
        "nohup",
        "setsid",
        "timeout",
        "stdbuf",
        "xargs",
        "parallel",
        "time",
        "find",
        "flock",
        "script",
        "watch",
        "strace",
        "unshare",
        "nsenter",
        "chroot",
        "setpriv",
    )
)
"""Programs that run the program in their arguments."""
_CODE_OPTIONS = {
    "python": r"-[A-Za-z]{0,4}c",
    "pypy": r"-[A-Za-z]{0,4}c",
    "node": r"-[epr]|--eval|--print|--require|--import|--(experimental-)?loader",
    "bun": r"-[epr]|--eval|--print|--preload|--require|--import",
    "deno": r"eval$",
    "perl": r"-[A-Za-z]{0,4}[eEM]",
    "ruby": r"-[A-Za-z]{0,4}[er]",
    "php": r"-r|--run",
    "lua": r"-[el]",
    "git": r"-c|--config-env|--exec-path",
}
"""Interpreters, and programs that run others -> expression for the argument that is, or is followed by, code."""
_RUNNING_SUBCOMMANDS = {
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), ("exec", "x", "dlx")),
    "uv": ("run", "tool", "x"),
    "deno": ("run",),
}
"""Package runners that also do other things -> subcommands that run what they fetch."""
_ALWAYS_FETCHING = PACKAGE_RUNNERS.keys() - _RUNNING_SUBCOMMANDS.keys() | {*CONTAINER_PROGRAMS}
_PINNED_VERSION = re.compile(r".@\d|==\d|@sha256:")
_INDEX_VARIABLE = re.compile(
    r"^(npm_config|yarn|pnpm|bun_config|pip|uv|cargo|gem|bundle|docker|goproxy|hf_endpoint)(_|$)|_proxy$", re.IGNORECASE
)
"""Variables that decide where package runners fetch packages."""
_INDEX_OPTION = re.compile(r"--(?:extra-|default-)?index(?:-url)?(?:=|$)|--registry(?:=|$)|--find-links(?:=|$)")
_DEFAULTS = ServerConfig(name="")
StartWarning = tuple[str, Mapping[str, str]]
"""Key of a sentence in table "trust", and its values."""


def list_config_notices(settings: Settings, words: Words) -> Iterator[str]:
    """Yield the notices about settings of a project that are refused, and about entries that cannot be used."""
    for path, name in settings.ignored:
        yield words("trust.ignored", file=path, name=name)
    for entry in settings.skipped:
        reason = f"{entry.reason} {entry.hint}".strip()
        key = "skipped" if entry.original_name else "file_skipped"
        yield words(f"servers.{key}", place=entry.location, server=entry.original_name, reason=reason)
    for server in settings.servers:
        if server.kept_off:
            keys = sanitize_line(", ".join(server.kept_off))
            yield words("servers.kept_off", place=server.source, server=server.name, keys=keys)


class ServerApproval:
    """Asks about servers, remembers the answers, and filters the servers that may start.

    A "no" is valid until the program ends.

    Attributes:
        trust_store: Store of accepted servers.
    """

    def __init__(self, state: Path | None) -> None:
        self.trust_store = TrustStore(str(state) if state else None)
        self._declined: set[str] = set()
        self._unexpanded: dict[str, ServerConfig] = {}

    def filter_servers(self, servers: Iterable[ServerConfig]) -> tuple[ServerConfig, ...]:
        """Return the servers that may start, with their variables expanded."""
        checked = [self._check(server) for server in servers]
        return tuple(server for server in checked if isinstance(server, ServerConfig))

    def find_refusals(self, servers: Iterable[ServerConfig]) -> dict[str, ChatError]:
        """Return why each refused server does not start, by name."""
        checked = {server.name: self._check(server) for server in servers if is_enabled(server)}
        return {name: error for name, error in checked.items() if isinstance(error, ConfigError)}

    def check_start(self, expanded: ServerConfig) -> None:
        """Check again that a server of `filter_servers` may start; raise ConfigError if it may not."""
        # before each start, also a restart hours later: files, variables and answers may have changed
        server = self._unexpanded.get(expanded.name, expanded)
        if check_start(self.trust_store, server) != expanded:
            raise refusal_error(server)

    def _check(self, server: ServerConfig) -> ServerConfig | ConfigError:
        try:
            expanded = check_start(self.trust_store, server)
        except ConfigError as error:
            return error
        self._unexpanded[server.name] = server
        return expanded

    async def ask_about_files(self, settings: Settings, user: UserPrompts, words: Words) -> None:
        """Ask about the files of this folder that native code would read, unless they are accepted.

        Raises:
            ModelError: One of them cannot be read.
        """
        review = await asyncio.to_thread(review_project_files, settings, self.trust_store)
        if review and await user.confirm("\n".join([*describe_files(review, words), words("trust.read")])):
            accept_files(review, self.trust_store)

    async def ask_user(
        self, servers: Iterable[ServerConfig], user: UserPrompts | None, words: Words, allow: Iterable[str] = ()
    ) -> list[str]:
        """Ask about the servers that need approval, once: about several as one list, then about each if wanted.

        Args:
            servers: All servers.
            user: The user; None asks nobody.
            words: The language.
            allow: The patterns that allow tools of the user's own servers.

        Returns:
            Further patterns: the user agreed that rules for his own servers hold for servers that he accepted, too.
        """
        if user is None:
            return []
        allow = list(allow)
        accepted = await self._ask_about_starts(servers, user, words, allow)
        agreed = list[str]()
        for server in accepted:
            rules = find_named_rules(allow, server.name)
            if rules and await user.confirm(describe_rights(server, rules, words)):
                agreed += store_rights(self.trust_store, rules)
        return agreed

    async def _ask_about_starts(
        self, servers: Iterable[ServerConfig], user: UserPrompts, words: Words, allow: Iterable[str]
    ) -> list[ServerConfig]:
        """Ask about the servers; return those that the user accepted now."""
        pending: list[tuple[ReviewedStart, list[str]]] = []
        for server in filter(is_enabled, filter(needs_acceptance, servers)):
            review = await asyncio.to_thread(review_start, server)  # probing the sandbox may take seconds
            lines = describe_review(review, words, allow)
            if _fingerprint(review, lines) not in self._declined and not is_accepted(self.trust_store, review):
                pending.append((review, lines))
        asks_each = len(pending) == 1
        if len(pending) > 1:
            described = [line for _, lines in pending for line in lines]
            question = words("trust.start_all", count=len(pending))
            if await user.confirm("\n".join([*described, *_list_starts(pending, words), question])):
                for review, _ in pending:
                    accept(self.trust_store, review)
                return [review.server for review, _ in pending]
            asks_each = await user.confirm(words("trust.each"))
        accepted = list[ServerConfig]()
        for review, lines in pending:
            if asks_each and await user.confirm("\n".join([*lines, words("trust.start")])):
                accept(self.trust_store, review)
                accepted.append(review.server)
            else:
                self._declined.add(_fingerprint(review, lines))
        return accepted

    def accept_server(self, server: ServerConfig) -> None:
        """Accept a server that the user has just written."""
        accept(self.trust_store, review_start(server))

    def forget_declined(self) -> None:
        """Forget declined servers, so that they are asked about again."""
        self._declined.clear()


def _fingerprint(review: ReviewedStart, lines: Sequence[str]) -> str:
    """Identify a server as it was described, to remember that it was declined."""
    return hash_value([review.server.name, lines])


def _list_starts(pending: Sequence[tuple[ReviewedStart, list[str]]], words: Words) -> list[str]:
    """Return a line for each server that is described above: name, program or URL, and number of warnings."""
    listed = [words("trust.list")]
    for number, (review, lines) in enumerate(pending, 1):
        server = review.server
        start = _hide_variables(_format_value([server.url or server.command, *server.args]), review.variables)
        count = sum(line.startswith("  ! ") for line in set(lines))
        warnings = f" ({words('trust.counted', count=count)})" if count else ""
        listed.append(f"  {number}. {sanitize_line(server.name)}: {_leave_out_middle(start, words)}{warnings}")
    return listed


def describe_review(review: ReviewedStart, words: Words, allow: Iterable[str] = ()) -> list[str]:
    """Describe completely how a server would be started or reached, what it could access, and what is notable.

    This is the one review of a server, for those that a folder's file defines as for those that a command is about to
    write into a file of the user. A description that does not fit on a screen ends with a summary, so that long values
    hide nothing above them.

    Args:
        review: How the server would be started.
        words: The language.
        allow: The patterns of `allow` in force: which of them a folder's server has is shown, as it may have changed.
    """
    server = review.server
    heading = "trust.named" if needs_acceptance(server) else "trust.given"
    lines = [words(heading, server=sanitize_line(server.name), file=sanitize_line(server.source))]
    values = {key: value for key, value in review.values.items() if key not in _EFFECTIVE}
    for key in _TABLES:
        table = values.get(key) or {}
        values[key] = [f"{name}={mask_value(name, value)}" for name, value in sorted(table.items())]
    masked = {name: MASK if is_secret_value(name, value) else value for name, value in review.variables.items()}
    values["variables"] = [f"{name}={value}" for name, value in sorted(masked.items())]
    if values.get("program") == values.get("command"):
        values["program"] = None
    if not server.command:
        values["cwd"] = None
    first = [key for key in ("command", "program", "args", "url", "cwd") if key in values]
    for key in [*first, *(key for key in values if key not in (*first, "name"))]:
        if values[key]:
            lines.append(f"  {key} = {_format_value(values[key])}")
    lines += [f"  {key} = {_format_value(value)}" for key, value in _list_reach(review).items()]
    uses = {key: getattr(server, key) for key in _USES if getattr(server, key) != getattr(_DEFAULTS, key)}
    lines += [f"  {key} = {_format_value(value)}" for key, value in uses.items()]
    lines += [f"  {words('trust.no_effect', entry=_show(entry))}" for entry in server.not_obeyed]
    if review.reach and review.reach.known:
        name, reason = review.reach.known
        lines.append(f"  {describe_known(name, reason, words)}")
    lines = [_hide_variables(line, review.variables) for line in lines]
    warnings = [
        _hide_variables(f"  {words(f'trust.{warning}', **fields)}", review.variables)
        for warning, fields in find_warnings(review)
    ]
    if needs_acceptance(server) and (rules := find_held_rules(allow, server.name)):
        warnings.append(f"  {words('trust.has_rights', rules=', '.join(map(_show, rules)))}")
    contents = [f"  {words('trust.contents')}"] if server.command else []
    return [*lines, *warnings, *contents, *_summarize(lines, warnings, words)]


def describe_rights(server: ServerConfig, rules: Iterable[str], words: Words) -> str:
    """Return the question whether rules for the user's own servers hold for a folder's server of such a name, too."""
    shown = ", ".join(map(_show, rules))
    return words("trust.rights", rules=shown, server=_show(server.name), file=_show(server.source))


def store_rights(trust_store: TrustStore, rules: Iterable[str]) -> list[str]:
    """Store for this folder that rules hold for its servers, too; return the patterns."""
    patterns = [OF_FOLDER + rule for rule in rules]
    for pattern in patterns:
        trust_store.change_rule("allow", pattern)
    return patterns


def describe_files(review: Review, words: Words) -> list[str]:
    """Describe files that native code would read, each with its size and SHA-256."""
    rows = [words("trust.file", path=_format_value(path), size=row[1], digest=row[-1]) for path, row in review.items()]
    return [words("trust.files"), *(f"  {row}" for row in rows), f"  {words('trust.native')}"]


def describe_known(name: str, reason: str, words: Words) -> str:
    """Return why a known server may do more than others; the reason of a user's own row is shown as it is."""
    return words("sandbox.known", name=name, reason=words.sentences.get(f"known.{reason}", sanitize_line(reason)))


def _summarize(lines: Sequence[str], warnings: Sequence[str], words: Words) -> list[str]:
    """Return what a long description contains, with shortened lines; nothing for one that fits on a screen."""
    if sum(-(-len(line) // _SCREEN_COLUMNS) for line in [*lines, *warnings]) <= _SCREEN_ROWS:
        return []
    shortened = [_leave_out_middle(line, words) for line in [*lines, *warnings[:_MAX_WARNINGS]]]
    left = len(warnings) - _MAX_WARNINGS
    return [words("trust.short"), *shortened, *([f"  {words('trust.warnings', count=left)}"] if left > 0 else [])]


def _leave_out_middle(line: str, words: Words) -> str:
    """Return a line with the number of the characters that are left out of its middle."""
    if len(line) <= _WHOLE_CHARS:
        return line
    begin, end = line[: _WHOLE_CHARS - 2 * _END_CHARS], line[-_END_CHARS:]
    return f"{begin} {words('trust.left_out', count=len(line) - len(begin) - len(end))} {end}"


def _hide_variables(line: str, variables: Mapping[str, str]) -> str:
    """Replace the values of secret variables, which are part of a command, folder or error if it refers to them."""
    for name, value in variables.items():
        if is_secret_value(name, value):
            for text in (value, json.dumps(value, ensure_ascii=False)[1:-1]):
                line = line.replace(text, f"${{{name}}}")
    return line


def _list_reach(review: ReviewedStart) -> dict[str, object]:
    """Return what the process could access, by the names of the settings."""
    reach = review.reach
    if review.problem:
        return {"problem": str(review.problem)}
    if reach is None:
        return {}
    passed = {"passes": reach.passed} if reach.passed else {}
    if reach.no_sandbox:
        return {"sandbox": f"none: {reach.no_sandbox}", **passed}
    return {"read": reach.reads, "write": ["/tmp", *reach.writes], "network": reach.has_network, **passed}


def _format_value(value: object) -> str:
    """Format a value for review; items of a list are quoted separately."""
    values: Sequence[object] = value if isinstance(value, list | tuple) else [value]
    return " ".join(escape_visibly(sanitize_line(json.dumps(item, ensure_ascii=False, default=str))) for item in values)


def find_warnings(review: ReviewedStart) -> Iterator[StartWarning]:
    """Yield what is notable about a start."""
    server, reach = review.expanded, review.reach
    if server.replaces:
        yield "replaces", {"file": _show(server.replaces)}
    elif server.name == BOARD_SERVER.name and needs_acceptance(server):
        yield "replaces_board", {}
    if reach:
        yield from _find_program_warnings(server.command, server.args)
        if reach.in_project:
            yield "inside", {}
        if reach.no_sandbox:
            yield "unsandboxed", {}
        elif reach.has_network:
            yield "network", {}
        yield from _find_path_warnings(review)
    yield from _find_name_warnings(review)


def _find_name_warnings(review: ReviewedStart) -> Iterator[StartWarning]:
    """Yield the variables and options that decide what is loaded, or that hand over a secret."""
    for name in sorted(review.expanded.env):
        if is_loader_variable(name):
            yield "loading", {"name": _show(name)}
        elif _INDEX_VARIABLE.search(name):
            yield "index", {"name": _show(name)}
    for word in review.expanded.args:
        if match := _INDEX_OPTION.match(word):
            yield "index", {"name": _show(match[0].rstrip("="))}
    for name, value in review.variables.items():
        if is_secret_value(name, value):
            yield "variable", {"name": _show(name)}


def _find_program_warnings(command: str, args: tuple[str, ...]) -> Iterator[StartWarning]:
    """Yield what is notable about a program, or about the one that a wrapper such as `env` runs."""
    name = Path(command).name
    words = [Path(part).name for word in args for part in word.split()]  # env -S and others take them in one argument
    if {name, *words} & _PRIVILEGE_TOOLS:
        yield "root", {}
    programs = [name, *words] if name in _WRAPPERS else [name]
    if _SHELLS.intersection(programs):
        yield "shell", {}
    options = [_CODE_OPTIONS.get(re.sub(r"[\d.]+$", "", program), "") for program in programs]
    if any(option and re.match(option, word) for option in options for word in args):
        yield "code", {}
    if _ALWAYS_FETCHING.intersection(programs) or any(
        subcommand in args for program in programs for subcommand in _RUNNING_SUBCOMMANDS.get(program, ())
    ):
        yield "pinned" if any(_PINNED_VERSION.search(word) for word in args) else "unpinned", {}
    if command == PROGRAM_NAME and args[:2] == ("serve", "claude") and "--permission-mode" not in args:
        yield "claude", {}


def _find_path_warnings(review: ReviewedStart) -> Iterator[StartWarning]:
    """Yield the paths in the arguments, and in what the sandbox permits, that hold the home or this folder."""
    server, reach = review.expanded, review.reach
    paths: dict[str, str] = {}
    for word in [*server.args, *server.env.values()]:
        path = word.rpartition("=")[2]
        if path and ("/" in path or path in ("~", "..")):
            paths.setdefault(resolve_path(path, server.cwd), path)
    for path in [*reach.writes, *reach.reads] if reach else ():
        paths.setdefault(path, path)
    for path, shown in paths.items():
        is_reached = reach is not None and path in (*reach.writes, *reach.reads)
        if kind := _find_kind(path) or (is_reached and _is_of_the_system(path) and "system"):
            yield kind, {"path": _show(shown)}


def _find_kind(path: str) -> str:
    home, here = resolve_path("~"), resolve_path(".")
    if contains([path], home):
        return "everything"
    return "parent" if path != here and contains([path], here) else ""


def _is_of_the_system(path: str) -> bool:
    """Tell whether a folder has sockets of other programs, such as D-Bus and X11, or settings of the kernel."""
    return path == "/tmp" or contains(("/run", "/proc", "/sys", "/dev"), path)


def _show(text: str) -> str:
    return escape_visibly(sanitize_line(text))
