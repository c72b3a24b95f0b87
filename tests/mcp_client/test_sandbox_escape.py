"""What a sandboxed server tries in order to get out, as root and as a user, with the same outside as a control.

One process per user and mode tries everything.
"""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.mcp_client.process.launch import plan_start

from .enclosed import OWN, SECRET, USERS, Stage, find_python, staged

pytestmark = pytest.mark.sandbox

DENIED = "PermissionError: [Errno 1] Operation not permitted"
NO_FAMILY = "OSError: [Errno 97] Address family not supported by protocol"
REACHED = "OSError: [Errno 14] Bad address"
"""The kernel looked at the arguments, which are null."""
KEY = "key-of-the-session"

# What is tried -> the probe, its result outside, and inside.
ACTS: dict[str, tuple[list[Any], str, str]] = {
    "a key of the session": (["keyring", KEY], f"ok {SECRET}", DENIED),
    "a socket of the host machine": (["open socket", 40], "ok", NO_FAMILY),
    "a socket of IPv4": (["open socket", socket.AF_INET], "ok", "ok"),
    "io_uring": (["kernel", "io_uring_setup", 4, None], "ok", DENIED),
    "userfaultfd": (["kernel", "userfaultfd", 1], "ok", DENIED),
    "bpf": (["kernel", "bpf", 0, 0, 8], REACHED, DENIED),
    "performance counters": (["kernel", "perf_event_open", 0, 0, -1, -1, 0], REACHED, DENIED),
    "a user namespace by unshare": (["make namespace", "unshare"], "ok", DENIED),
    "a user namespace by clone": (["make namespace", "clone"], "ok", DENIED),
    "threads and processes": (["work"], "ok done\n", "ok done\n"),
    "reading a setting of the kernel": (["read", "/proc/sys/kernel/ostype"], "ok Linux\n", "ok Linux\n"),
    "a key in the home": (["read", "~/.ssh/id_ed25519"], f"ok {SECRET}", "FileNotFoundError"),
}
# What is planted -> the probe: what this program or git would read or run next.
PLANTS: dict[str, list[Any]] = {
    "home/.mcp.json": ["plant", "~/.mcp.json"],
    "home/.config/rkllm-chat/config.toml": ["plant", "~/.config/rkllm-chat/config.toml"],
    "home/.local/state/rkllm-chat/trust/x": ["replace", "~/.local/state", "~/.local/state/rkllm-chat/trust/x"],
    "project/mcp.json": ["plant", "mcp.json"],
    "project/.git/config": ["plant", ".git/config"],
    "project/.git/modules/one/config": ["plant", ".git/modules/one/config"],
    "project/.git/hooks/pre-commit": ["plant", ".git/hooks/pre-commit"],
    "other/mcp_config.toml": ["plant", "../other/mcp_config.toml"],
}
CODE: dict[str, list[Any]] = {"package/rkllm_chat/new.py": ["plant", "../package/rkllm_chat/new.py"]}
"""The program of the other user, who has a copy of it in a folder of the stage."""
REPLACED: dict[str, list[Any]] = {
    "home/.config/rkllm-chat/more.toml": ["replace", "~/.config", "~/.config/rkllm-chat/more.toml"],
    "project/.git/hooks/pre-push": ["replace", ".git", ".git/hooks/pre-push"],
}
ALLOWED: dict[str, list[Any]] = {
    "home/notes/new.txt": ["plant", "~/notes/new.txt"],
    "project/new.txt": ["plant", "new.txt"],
    "project/.git/objects/new": ["plant", ".git/objects/new"],
    "other/new.toml": ["plant", "../other/new.toml"],
}


@pytest.fixture(scope="module", params=USERS)
def results(request: pytest.FixtureRequest) -> Iterator[dict[str, dict[str, Any]]]:
    """The results of all probes for one user: without a sandbox ("off"), and in one ("on")."""
    found = {}
    for mode in ("on", "off"):
        with staged(request.param) as stage:
            found[mode] = try_everything(stage, mode)
    yield found


def try_everything(stage: Stage, mode: str) -> dict[str, Any]:
    """The result of each act, the settings of the kernel that are open, and the files that were planted."""
    for name in ("project/.git/objects", "project/.git/modules/one", "other", "home/.local/state"):
        (stage.folder / name).mkdir(parents=True)
    for name in (".git/HEAD", ".git/config", ".git/modules/one/config", "../other/mcp_config.toml"):
        (stage.project / name).write_text("", encoding="utf-8")
    package = ["../package"] if stage.uid != OWN else []
    stage.add(sandbox=mode, write=[str(stage.home), ".", "../other", *package])
    for path in (stage.folder, *stage.folder.rglob("*")):
        os.chown(path, stage.uid, -1)
    stage.before = (find_python(stage.uid), str(stage.project / "probe.py"), "--with-key", KEY, SECRET)
    # the last act moves .git away
    plants = {**PLANTS, **(CODE if stage.uid != OWN else {}), **REPLACED}
    tried = {name: act for name, (act, _, _) in ACTS.items()}
    acts = {**tried, "settings": ["settings"], "keys": ["read", "/proc/keys"], **ALLOWED, **plants}
    results = dict(zip(acts, stage.try_out(*acts.values()), strict=True))
    planted = [name for name in (*ALLOWED, *plants) if is_planted(stage.folder / name)]
    return {**results, "planted": planted, "all": [*ALLOWED, *plants]}


def is_planted(path: Path) -> bool:
    moved = Path(str(path).replace("/.git/", "/.git.old/").replace("/.config/", "/.config.old/"))
    return any(place.is_file() and "the probe was here" in place.read_text(encoding="utf-8") for place in (path, moved))


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="system calls are not filtered here")
@pytest.mark.parametrize("act", ACTS)
def test_what_succeeds_outside_of_a_sandbox_is_denied_in_it(act: str, results: dict[str, dict[str, Any]]) -> None:
    _, outside, inside = ACTS[act]
    assert results["off"][act] == outside
    assert results["on"][act].startswith(inside)


def test_the_keys_of_the_session_are_not_listed(results: dict[str, dict[str, Any]]) -> None:
    assert KEY in results["off"]["keys"]
    assert results["on"]["keys"] == "PermissionError: [Errno 13] Permission denied: '/proc/keys'"


def test_no_setting_of_the_kernel_can_be_written(
    results: dict[str, dict[str, Any]], request: pytest.FixtureRequest
) -> None:
    is_root = "own user" in request.node.name and os.getuid() == 0
    assert ("/proc/sys/kernel/core_pattern" in results["off"]["settings"]) == is_root
    inside = results["on"]["settings"].removeprefix("ok ")
    assert [path for path in inside.strip("[]").split(", ") if path and "/proc/pressure/" not in path] == []


def test_what_this_program_or_git_would_read_next_cannot_be_planted(results: dict[str, dict[str, Any]]) -> None:
    assert results["off"]["planted"] == results["off"]["all"]
    assert results["on"]["planted"] == [*ALLOWED]


def test_planning_a_start_creates_and_opens_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for name in ("home/.local/state/rkllm-chat", ".git/objects"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / ".git/HEAD").touch()
    server = ServerConfig("probe", command="/bin/true", sandbox="on", write=(str(tmp_path), "~"))
    plan_start(server)  # the features of bubblewrap are probed and stored
    before = sorted(tmp_path.rglob("*")), sorted(Path("/proc/self/fd").iterdir())
    plan = plan_start(server)
    assert (sorted(tmp_path.rglob("*")), sorted(Path("/proc/self/fd").iterdir())) == before
    assert [os.path.relpath(path, tmp_path) for path in plan.missing] == [
        "home/.config/rkllm-chat",
        "home/.mcp.json",
        ".git/hooks",
    ]
