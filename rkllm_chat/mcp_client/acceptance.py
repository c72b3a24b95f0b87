"""What the user accepts when a project's server is to be started, and whether it was accepted.

A start is described by everything that decides what runs (program, arguments, variables, folder) and by the reach of
the process: what its sandbox permits, or that there is none. The description is shown, stored as a hash, and compared
before each start. The contents of the programs and scripts are not part of it.

One-shot commands import this module before they start a server, so it imports little.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..config.project_trust import (
    TrustStore,
    find_command_path,
    is_loader_variable,
    list_start_values,
    needs_acceptance,
    refusal_error,
)
from ..config.servers import ServerConfig, expand_server
from ..config.trust_rules import Origin
from ..core.errors import ChatError, ConfigError
from ..core.programs import PROGRAM_NAME
from ..core.redact import MIN_NAMED_LENGTH, SECRET_NAME, contains_key, redact_keys
from ..core.working_folder import find_working_folder
from .process.launch import plan_start
from .process.start import SANDBOX_VARIABLE
from .roots import find_roots, is_within

MASK = "********"
_PROGRAM_NAME_PART = (
    "command|cmd|exec|program|script|helper|process|hook|file|path|dir|ur[il]|host"
    "|addr|sock|backend|module|plugin|option|loader"
)
"""Parts of the names of variables that hold a program, a module, a path or an address."""
_VARIABLE_NAME = r"\$\{(\w+)"


class Reach:
    """What a server's process may access.

    Attributes:
        reads: Readable folders and files outside the system's, with links resolved; they include package caches.
        writes: Writable folders and files, with links resolved; they include the caches of package runners.
        has_network: Whether the network is available.
        no_sandbox: Why there is no sandbox; "" if there is one. Without one, everything of the user is accessible.
        in_project: Whether the program is a file of the current directory.
        known: The name under which it is known to need more than others, and why; empty if it is not.
        passed: Names of the variables of this machine's network that it gets.
    """

    def __init__(
        self,
        reads: Iterable[str] = (),
        writes: Iterable[str] = (),
        has_network: bool = True,
        no_sandbox: str = "",
        in_project: bool = False,
        known: tuple[str, ...] = (),
        passed: Iterable[str] = (),
    ) -> None:
        self.reads, self.writes = (sorted({os.path.realpath(path) for path in paths}) for paths in (reads, writes))
        self.has_network, self.no_sandbox, self.in_project = has_network, no_sandbox, in_project
        self.known, self.passed = known, sorted(passed)

    def is_covered_by(self, accepted: Mapping[str, Any]) -> bool:
        """Tell whether an accepted reach, as stored, permits all of this one."""
        if accepted.get("no_sandbox"):
            return True
        reads, writes = (
            [path for path in accepted.get(key) or () if isinstance(path, str)] for key in ("reads", "writes")
        )
        return (
            not self.no_sandbox
            and self.has_network <= bool(accepted.get("has_network"))
            and all(contains(writes, path) for path in self.writes)
            and all(contains([*reads, *writes], path) for path in self.reads)
        )


class ReviewedStart:
    """One server's start, as it is shown to the user and compared with what was accepted.

    Attributes:
        server: The server as its file says, with variables unexpanded.
        expanded: The server to start.
        values: Everything that decides what runs, by key, for the hash.
        variables: The referenced environment variables that are set, with their values.
        reach: What its process may access; None for a URL.
        problem: Why it cannot be started as it is; None if it can.
    """

    def __init__(self, server: ServerConfig, environment: Mapping[str, str]) -> None:
        self.server = self.expanded = server
        self.problem: ChatError | None = None
        names = sorted(set(re.findall(_VARIABLE_NAME, str(list_start_values(server)))))
        self.variables = {name: environment[name] for name in names if environment.get(name)}
        try:
            self.expanded = expand_server(server, environment)
        except ConfigError as error:
            self.problem = error
        self.reach = self._find_reach() if server.command else None
        self.values = list_start_values(server)
        # a secret of the user's environment may change: what was accepted is that the server gets it
        self.values["variables"] = {
            name: None if is_secret_value(name, value) else value for name, value in self.variables.items()
        }
        if server.command:
            self.values["cwd"] = os.path.abspath(os.path.expanduser(self.expanded.cwd))
            self.values["command"] = find_command_path(self.expanded)
            self.values["program"] = self.program

    @property
    def program(self) -> str:
        """Path of the program with links resolved; its name if it ships with this program or cannot be found."""
        path = find_command_path(self.expanded)
        return os.path.realpath(path) if os.path.isabs(path) else path

    def _find_reach(self) -> Reach:
        in_project = contains([resolve_path(".")], self.program)
        if self.problem:
            return _make_unknown_reach(in_project)
        try:
            plan = plan_start(self.expanded, find_roots(self.expanded))
        except ChatError as error:
            self.problem = error
            return _make_unknown_reach(in_project)
        sandbox, passed = plan.sandbox, plan.passed
        if sandbox is None or sandbox.unavailable_reason:
            reason = sandbox.unavailable_reason if sandbox else _explain_no_sandbox(self.expanded)
            return Reach(no_sandbox=reason, in_project=in_project, passed=passed)
        known = (sandbox.known_name, sandbox.known_reason) if sandbox.known_name else ()
        return Reach(sandbox.reads, sandbox.writes, sandbox.has_network, "", in_project, known, passed)


def _make_unknown_reach(in_project: bool) -> Reach:
    """Return the reach of what cannot be started now: nothing, so that accepting it permits nothing of what comes."""
    return Reach(has_network=False, in_project=in_project)


def _explain_no_sandbox(server: ServerConfig) -> str:
    """Return why no sandbox is used for a server although one may be available."""
    if server.sandbox == "off":
        return 'sandbox = "off"'
    if server.command == PROGRAM_NAME:
        return f"it is part of {PROGRAM_NAME}"
    if os.environ.get(SANDBOX_VARIABLE) == "off":
        return f"{SANDBOX_VARIABLE}=off"
    return f"{os.path.basename(server.command)} is a sandbox itself"


def is_secret_value(name: str, value: str) -> bool:
    """Tell whether a value is hidden in a review: a key, or the specific value of a secret name."""
    return contains_key(value) or _is_named_secret(name, value)


def _is_named_secret(name: str, value: str) -> bool:
    """Tell whether a value is that of a secret name.

    What looks like a path or a command is not, because it may decide what runs (RESTIC_PASSWORD_COMMAND).
    """
    is_named = bool(SECRET_NAME.search(name)) and not _may_name_program(name) and len(value) >= MIN_NAMED_LENGTH
    return is_named and "${" not in value and not value.startswith(("/", "~", ".")) and len(value.split()) <= 2


def _may_name_program(name: str) -> bool:
    return is_loader_variable(name) or bool(re.search(_PROGRAM_NAME_PART, name, re.IGNORECASE))


def mask_value(name: str, value: str) -> str:
    """Return a value of a project's file as a review shows it: without secrets, but with all that may decide what runs.

    Of a value that only contains a key, the rest is shown: the author of the file could add a key to hide the value.
    """
    if _is_named_secret(name, value):
        return MASK
    is_shown = is_loader_variable(name) or (_may_name_program(name) and "://" not in value)
    return redact_keys(value) if contains_key(value) and not is_shown else value


def contains(folders: Iterable[str], path: str) -> bool:
    """Tell whether a path is one of the folders or lies in one."""
    return any(path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in folders)


def resolve_path(path: str, folder: str = "") -> str:
    """Return the absolute path of what a server is given as a path, with `~`, `..` and links resolved."""
    return os.path.realpath(os.path.join(os.path.expanduser(folder), os.path.expanduser(path)))


def review_start(server: ServerConfig, environment: Mapping[str, str] = os.environ) -> ReviewedStart:
    """Describe how a server would be started now. Starts nothing."""
    return ReviewedStart(server, environment)


def is_accepted(trust_store: TrustStore, review: ReviewedStart) -> bool:
    """Tell whether the user has accepted a server in its current form."""
    accepted = trust_store.find_accepted(review.server, review.values)
    return accepted is not None and (review.reach is None or review.reach.is_covered_by(accepted))


def may_start(trust_store: TrustStore, server: ServerConfig) -> bool:
    """Tell whether a server may start: the user's own, the board server, or one accepted in its current form."""
    if not needs_acceptance(server):
        return True
    return bool(trust_store.read_record(server)) and is_accepted(trust_store, review_start(server))


def check_start(trust_store: TrustStore, server: ServerConfig) -> ServerConfig:
    """Return a server with its variables expanded, if it may start.

    Raises:
        ConfigError: The user has not accepted it, or a variable without default is not set.
    """
    if not may_start(trust_store, server):
        raise refusal_error(server)
    return expand_server(server)


def accept(trust_store: TrustStore, review: ReviewedStart) -> None:
    """Record that the user accepted a start."""
    trust_store.accept_server(review.server, review.values, vars(review.reach) if review.reach else {})


def forget_removed(trust_store: TrustStore, name: str, source: str) -> None:
    """Forget what the user accepted of a server whose entry was removed from a file of the folder.

    A later entry of that name is asked about, also if it is the same: somebody else may have written it.

    Args:
        trust_store: The record of what was accepted.
        name: Name of the server.
        source: The file.
    """
    folder = find_working_folder()
    if is_within(os.path.normpath(os.path.join(folder, source)), [folder]):
        trust_store.forget_server(ServerConfig(name, source=source, origin=Origin.PROJECT))
