"""Files are replaced whole, through no link of somebody else, and no edit of another process is lost."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rkllm_chat.config.editor import add_server, save_setting, set_enabled
from rkllm_chat.config.project_trust import TrustStore
from rkllm_chat.config.sandbox_rules import Allowance, find_allowance, save_allowance
from rkllm_chat.config.servers import ServerConfig
from rkllm_chat.config.tool_pins import ToolPins
from rkllm_chat.core.errors import ConfigError
from rkllm_chat.core.file_writes import create_file, lock_edits, replace_file
from rkllm_chat.storage.local_statistics import ToolUsage
from shell import Shell
from stage import Run

EVIL = '[policy]\nallow = ["*"]\n\n[[servers]]\nname = "evil"\ncommand = "true"\n'
PRECIOUS = "# mine\n"


@pytest.fixture
def clone(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of somebody else, in the home of a user whose `.bashrc` is precious."""
    home = Path(environment["HOME"])
    (home / ".bashrc").write_text(PRECIOUS, encoding="utf-8")
    folder = home / "src/clone"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def disable(path: str, environment: dict[str, str]) -> None:
    set_enabled("evil", False, Path(path), environment)


def test_links_under_the_names_of_temporary_files_lead_nowhere(clone: Path, environment: dict[str, str]) -> None:
    (clone / "mcp_config.toml").write_text(EVIL, encoding="utf-8")
    for name in (f".mcp_config.toml.{os.getpid()}", f"mcp_config.toml.{os.getpid()}", f".mcp_config.toml.{'a' * 16}"):
        (clone / name).symlink_to("../../.bashrc")
    disable("mcp_config.toml", environment)
    assert (clone / "../../.bashrc").read_text(encoding="utf-8") == PRECIOUS
    status = (clone / "mcp_config.toml").lstat()
    assert stat.S_ISREG(status.st_mode)
    assert "enabled = false" in (clone / "mcp_config.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("link", "target", "edited"),
    [
        ("mcp_config.toml", "../../own.toml", "mcp_config.toml"),
        ("mcp_config.toml", "inside.toml", "mcp_config.toml"),
        ("mcp_config.toml", "../../own.toml", "{clone}/mcp_config.toml"),
        ("mcp_config.toml", "../../own.toml", "../clone/mcp_config.toml"),
        (".claude", "../../claude", ".claude/mcp.json"),
    ],
)
def test_a_file_of_a_project_that_is_a_link_or_behind_one_is_refused(
    link: str, target: str, edited: str, clone: Path, environment: dict[str, str]
) -> None:
    entry = '{"mcpServers": {"evil": {"command": "true"}}}'
    files = {"../../own.toml": EVIL, "inside.toml": EVIL, "../../claude/mcp.json": entry}
    for name, text in files.items():
        (clone / name).parent.mkdir(exist_ok=True)
        (clone / name).write_text(text, encoding="utf-8")
    (clone / link).symlink_to(target)
    path = edited.format(clone=clone)
    with pytest.raises(ConfigError, match="symbolic link") as refused:
        disable(path, environment)
    assert "Edit the file that it leads to" in refused.value.hint
    with pytest.raises(ConfigError, match="symbolic link"):
        add_server({"name": "new", "command": "true"}, Path(path), environment)
    assert {name: (clone / name).read_text(encoding="utf-8") for name in files} == files
    assert (clone / link).is_symlink()


def test_the_command_refuses_it_with_the_reason(folder: Path, program: Run) -> None:
    (folder / "../own.toml").write_text(EVIL, encoding="utf-8")
    (folder / "mcp_config.toml").symlink_to("../own.toml")
    for words in (("disable", "evil"), ("add", "--project", "new", "--", "true")):
        assert "mcp_config.toml: it is a symbolic link" in program("mcp", *words, code=3).stderr
    assert (folder / "../own.toml").read_text(encoding="utf-8") == EVIL


@pytest.mark.parametrize("is_folder", [False, True])
def test_the_users_own_configuration_may_be_a_link_and_stays_one(is_folder: bool, environment: dict[str, str]) -> None:
    home = Path(environment["HOME"])
    (home / "dotfiles").mkdir()
    own, target = home / ".config/rkllm-chat/config.toml", home / "dotfiles/config.toml"
    target.write_text(EVIL, encoding="utf-8")
    target.chmod(0o640)
    if is_folder:
        own.parent.parent.mkdir(exist_ok=True)
        own.parent.symlink_to(target.parent)
    else:
        own.parent.mkdir(parents=True, exist_ok=True)
        own.symlink_to(target)
    disable(str(own), environment)
    save_setting("generation", "top_k", 3, own, environment)
    text = target.read_text(encoding="utf-8")
    assert ("enabled = false" in text, "top_k = 3" in text, target.stat().st_mode & 0o777) == (True, True, 0o640)
    assert (own.parent if is_folder else own).is_symlink()
    assert [path.name for path in target.parent.iterdir()] == ["config.toml"]


def test_a_link_where_a_file_is_written_is_replaced_and_never_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text(PRECIOUS, encoding="utf-8")
    (tmp_path / "link").symlink_to("target")
    with pytest.raises(FileExistsError):
        create_file(tmp_path / "link", b"x")
    replace_file(tmp_path / "link", b"x", 0o640)
    assert (tmp_path / "target").read_text(encoding="utf-8") == PRECIOUS
    assert ((tmp_path / "link").read_bytes(), (tmp_path / "link").lstat().st_mode & 0o7777) == (b"x", 0o640)


def test_what_a_killed_writer_left_goes_with_the_next_edit(clone: Path, environment: dict[str, str]) -> None:
    (clone / "mcp_config.toml").write_text(EVIL, encoding="utf-8")
    (clone / f".mcp_config.toml.{'0' * 16}").write_text("half", encoding="utf-8")
    (clone / ".mcp_config.toml.backup").write_text("kept", encoding="utf-8")
    disable("mcp_config.toml", environment)
    assert sorted(path.name for path in clone.iterdir()) == [".mcp_config.toml.backup", "mcp_config.toml"]


def test_a_lock_that_another_holds_is_waited_for_with_a_limit_and_named(tmp_path: Path) -> None:
    with lock_edits(tmp_path), pytest.raises(TimeoutError, match=r"edits\.lock"), lock_edits(tmp_path, 0.05):
        pass
    with lock_edits(tmp_path, 0.05):
        pass


def test_eight_commands_at_once_lose_nothing(shell: Shell) -> None:
    """Processes: each of them reads the file before any has written it, if nothing keeps them apart."""
    names = [f"s{number}" for number in range(8)]
    for before, after in ((("add",), ("--", "true")), (("disable",), ())):
        running = [shell.start("mcp", *before, name, *after) for name in names]
        ended = [(process.communicate(timeout=60), process.returncode) for process in running]
        assert [code for _, code in ended] == [0] * 8, ended
    text = Path(shell.environment["HOME"], ".config/rkllm-chat/config.toml").read_text(encoding="utf-8")
    assert (sorted(re.findall(r'"(s\d)"', text)), text.count("enabled = false")) == (names, 8)


def add_rule(state: Path, name: str) -> None:
    TrustStore(str(state)).change_rule("deny", name)


def list_rules(state: Path) -> list[str]:
    return TrustStore(str(state)).read_rules()["deny"]


def add_pin(state: Path, name: str) -> None:
    ToolPins(TrustStore(str(state)), ServerConfig("s", command="x")).pin_tools({name: {"name": name}})


def list_pins(state: Path) -> list[str]:
    return [*TrustStore(str(state)).read_record(ServerConfig("s", command="x"))["tools"]]


def accept(state: Path, name: str) -> None:
    TrustStore(str(state)).accept_server(ServerConfig(name, command="x"), {"command": name}, {})


def list_accepted(state: Path) -> list[str]:
    store = TrustStore(str(state))
    return [name for name in NAMES if store.find_accepted(ServerConfig(name, command="x"), {"command": name}) == {}]


def allow(state: Path, name: str) -> None:
    server = ServerConfig("s", source=f"/{name}")  # all in one record
    save_allowance(server, Allowance("s", f"/{name}", ("/writable",)), {"HOME": str(state)})


def list_allowed(state: Path) -> list[str]:
    environment = {"HOME": str(state)}
    return [name for name in NAMES if find_allowance(ServerConfig("s", source=f"/{name}"), environment).write]


def count(state: Path, name: str) -> None:
    ToolUsage(state / "counts.json").record_call(name)


def list_counted(state: Path) -> list[str]:
    return [*ToolUsage(state / "counts.json").counts]


NAMES = [f"n{number}" for number in range(40)]


@pytest.mark.parametrize(
    ("write", "read"),
    [
        (add_rule, list_rules),
        (add_pin, list_pins),
        (accept, list_accepted),
        (allow, list_allowed),
        (count, list_counted),
    ],
)
def test_what_many_store_at_once_is_all_there(
    write: Callable[[Path, str], None], read: Callable[[Path], list[str]], tmp_path: Path
) -> None:
    """Threads, which the lock keeps apart as it does processes: each opens it for itself."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, [tmp_path] * len(NAMES), NAMES))
    assert sorted(read(tmp_path)) == sorted(NAMES)
