"""What is said of a server that ended, and which folder a failed call is offered: one that its sandbox denies.

It is never one that others rely on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rkllm_chat.mcp_client.process.denials import explain_refusal, find_denial, find_unopened
from rkllm_chat.mcp_client.process.end_hints import explain_end
from rkllm_chat.mcp_client.process.start import Sandbox


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a project, in which the program runs."""
    for name in ("home/notes", "home/project/data", "home/project/.git", "home/.ssh/keys", "home/bin"):
        (tmp_path / name).mkdir(parents=True)
    for name in (".config/rkllm-chat", ".config/autostart", ".local/state/rkllm-chat/trust"):
        (tmp_path / "home" / name).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tmp_path}/home/bin:{os.environ['PATH']}")
    return tmp_path / "home"


@pytest.fixture
def sandbox(home: Path) -> Sandbox:
    """A sandbox that permits reading the project and writing its data."""
    one = Sandbox("notes")
    one.has_network, one.folder, one.source = False, str(home / "project"), "mcp.json"
    one.reads, one.writes = [str(home / "project")], [str(home / "project/data")]
    one.words = ("--db-path", "t.db")
    return one


# What the server says, with {home}, and what it is offered below the home folder.
ERRORS = {
    "EROFS: read-only file system, open '{home}/project/a.txt.1f.tmp'": "project",
    "[Errno 30] Read-only file system: 'new.txt'": "project",
    "Unable to create '{home}/project/.git/index.lock': Read-only file system": "project",
    "EROFS: read-only file system, mkdir '{home}/notes/a/b'": "notes",
    "ENOENT: no such file or directory, open '{home}/notes/a.txt'": "notes",
    "ENOENT: no such file or directory, open '{home}/project/a.txt'": None,
    "EROFS: read-only file system, open '{home}/project/data/a.txt'": None,
    "EROFS: read-only file system, open '{home}/a.txt'": "",
    "EROFS: read-only file system, open '{home}/.ssh/keys/a'": "",
    "EROFS: read-only file system, open '{home}/project/../.ssh/keys/a'": "",
    "EROFS: read-only file system, open '/etc/hosts'": "",
    "Permission denied for user 'bob'": None,
    # the kernel never refuses a path of a sandbox with this one
    "EACCES: permission denied, mkdir '{home}/notes/a/b'": None,
    "[Errno 13] Permission denied: '{home}/project/a.txt'": None,
    "The database is in a read-only file system.": None,
    "The request failed.": None,
}


@pytest.mark.parametrize("text", ERRORS)
def test_an_error_leads_to_the_folder_that_is_denied(text: str, home: Path, sandbox: Sandbox) -> None:
    denial = find_denial(sandbox, (), text.format(home=home))
    expected = ERRORS[text]
    assert (denial.folder if denial else None) == (str(home / expected) if expected else expected)


def test_a_file_that_cannot_be_opened_is_that_of_the_arguments_and_not_of_the_text(
    home: Path, sandbox: Sandbox
) -> None:
    (home / "project/t.db").touch()
    text = f"Database error: unable to open database file {home}/notes/t.db"
    for arguments, folder in (({}, home / "project"), ({"path": f"{home}/notes/t.db"}, home / "notes")):
        for claim in (text, "Database error: attempt to write a readonly database"):
            denial = find_unopened(sandbox, claim, arguments)
            assert denial and denial.folder == str(folder)
    assert find_unopened(sandbox, "unable to open " + "x" * 1000, {}) is None
    sandbox.writes.append(str(home / "project"))
    assert find_unopened(sandbox, text, {}) is None


REFUSED: dict[str, Callable[[Path], Path]] = {
    "the home folder": lambda home: home,
    "one above it": lambda home: home.parent,
    "keys": lambda home: home / ".ssh/keys",
    "a folder with keys": lambda home: home / ".config",
    "programs of the session": lambda home: home / ".config/autostart",
    "our configuration": lambda home: home / ".config/rkllm-chat",
    "our state": lambda home: home / ".local/state/rkllm-chat/trust",
    "a folder with our state": lambda home: home / ".local/state",
    "git's": lambda home: home / "project/.git",
    "a folder on the PATH": lambda home: home / "bin",
    "the system's": lambda _: Path("/usr/share"),
    "a link to keys": lambda home: home / "link",
    "a file": lambda home: home / "file",
    "nothing": lambda home: home / "nowhere",
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_folder_that_others_rely_on_is_refused(case: str, home: Path) -> None:
    (home / "link").symlink_to(home / ".ssh")
    (home / "file").touch()
    assert explain_refusal(str(REFUSED[case](home)))
    assert explain_refusal(str(home / "notes")) == ""


# What a server wrote before it exited with the code -> a part of what is said of it, and one that is not said.
ENDS: dict[tuple[str, int], tuple[str, str]] = {
    ("OSError: [Errno 30] Read-only file system: 'x'", 3): ("could write to /tmp", "PATH"),
    ("OSError: [Errno 30] Read-only file system: 'x'", -9): ("", "sandbox"),
    ("getaddrinfo EAI_AGAIN registry.example.org", 1): ("It ran in a sandbox without a network", "PATH"),
    ("invalid peer certificate: UnknownIssuer", 1): ("SSL_CERT_FILE", "sandbox"),
    ("407 Proxy Authentication Required", 1): ("NO_PROXY", "sandbox"),
    ("env: 'nodejs-x': No such file or directory", 127): ('"nodejs-x", which is not on the PATH', "sandbox"),
    ("/usr/bin/node: bad option: -y", 9): ("takes no option -y", "sandbox"),
    ("AttributeError: module has no attribute 'x'", 1): ("", "sandbox"),
}


@pytest.mark.parametrize(("written", "exit_code"), ENDS)
def test_what_is_said_of_a_server_that_ended_fits_what_it_wrote(written: str, exit_code: int, sandbox: Sandbox) -> None:
    said, unsaid = ENDS[written, exit_code]
    hint = explain_end(written, exit_code, sandbox)
    assert said in hint and unsaid not in hint and bool(hint) == bool(said)
