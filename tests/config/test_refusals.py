"""What is refused of configuration files and of what the user has decided, through the command line and the chat.

Each row fails without the one check that it is about. Files of other users, and those that everybody may write, are in
tests/storage/test_disk_faults.py, links in tests/core/test_file_writes.py.
"""

from __future__ import annotations

import fcntl
import json
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from rkllm_chat.config.files import TRUST_VARIABLE
from rkllm_chat.config.sandbox_rules import Allowance, find_own_rules, save_allowance
from rkllm_chat.config.servers import ServerConfig
from rkllm_chat.core.errors import ConfigError
from rkllm_chat.mcp_client.process.start import SANDBOX_VARIABLE
from shell import Shell
from stage import Run, Screen

ONE = '[[servers]]\nname = "one"\ncommand = "x"\n'
YAML = "mcpServers: {one: {command: x}}"
DEEP = "[" * 40 + "]" * 40
NO_YAML, ODD = "YAML files cannot be edited here.", "the file is written in a way that cannot be edited here."

# What is not edited: the file, its text, the command, why.
EDITS: dict[str, tuple[str, str, str, str]] = {
    "YAML, to add": ("c.yaml", YAML, "add two -- x", NO_YAML),
    "YAML, to remove": ("c.yaml", YAML, "remove one", NO_YAML),
    "YAML, to disable": ("c.yaml", YAML, "disable one", NO_YAML),
    "a list in JSON": ("c.json", '{"servers": [{"name": "one", "command": "x"}]}', "disable one", ODD),
    "another entry": ("c.toml", f'[["servers"]]{ONE[11:]}{ONE.replace("one", "two")}', "disable one", ODD),
    "no object": ("c.json", '{"mcpServers": {"one": 1}}', "enable one", "there is no object mcpServers.one."),
}


@pytest.mark.parametrize(("name", "text", "words", "reason"), EDITS.values(), ids=EDITS)
def test_a_file_that_could_not_be_edited_rightly_stays_as_it_is(
    name: str, text: str, words: str, reason: str, folder: Path, in_process: Run
) -> None:
    (folder / name).write_text(text, encoding="utf-8")
    action, *rest = words.split()
    done = in_process("mcp", action, "--config", name, *rest, code=3)
    assert reason in done.stderr and name in done.stderr
    assert (folder / name).read_text(encoding="utf-8") == text


def test_an_own_file_that_cannot_be_read_is_no_file_without_rules(
    environment: dict[str, str], program: Run, script: Callable[..., str]
) -> None:
    """What it forbids would be allowed: a link of a version-controlled home that leads to nothing, or a folder."""
    own, model = Path(environment["HOME"]) / ".config/rkllm-chat/config.toml", script("Hello.")
    own.parent.mkdir(parents=True)
    own.symlink_to("../../dotfiles/config.toml")
    for reason in ("it is a link to nothing", "Too many levels of symbolic links", "Is a directory"):
        if reason.startswith("Too"):
            own.unlink()
            own.symlink_to(own.name)
        elif reason.startswith("Is"):
            own.unlink()
            own.mkdir()
        told = f"{own}: {reason}."
        assert told in program("-p", "x", "--model", model, code=3).stderr
        assert json.loads(program("list-servers", code=1).stdout)["error"]["message"] == told
    assert told in program("doctor", "--model", model, code=1).stdout
    own.rmdir()
    assert program("-p", "x", "--model", model).stdout == "Hello.\n"


def test_the_chat_saves_no_setting_in_a_file_for_other_programs(
    folder: Path, open_screen: Callable[..., Screen], script: Callable[..., str]
) -> None:
    (folder / "c.json").write_text('{"mcpServers": {}}', encoding="utf-8")
    screen = open_screen("--config", "c.json", "--model", script("Hello."))
    screen.wait_for_prompt()
    screen.enter("/set top_k 3 --save", "c.json: only TOML files can be edited. Set top_k in [generation] by hand.")
    assert (folder / "c.json").read_text(encoding="utf-8") == '{"mcpServers": {}}'


# What is not read: the file, its text, the command, why.
READS: dict[str, tuple[str, bytes, str, str]] = {
    "a deep entry of JSON": (
        "c.json",
        b'{"mcpServers": {"one": {"command": "x", "y": %b}}}' % DEEP.encode(),
        "mcp list --no-start --config c.json",
        "mcpServers.one.y is nested too deep.",
    ),
    "a deep entry of TOML": (
        "c.toml",
        f"{ONE}y = {DEEP}".encode(),
        "mcp list --no-start --config c.toml",
        "servers is nested too deep.",
    ),
    "a deep setting": (
        "c.toml",
        f"[chat]\nsystem = {DEEP}".encode(),
        "mcp list --config c.toml",
        "c.toml: chat.system is nested too deep.",
    ),
    "a NUL": (
        "c.toml",
        f'{ONE}args = ["\\u0000"]'.encode(),
        "mcp list --no-start --config c.toml",
        "args[0] contains a NUL character.",
    ),
    "a key twice": (
        "c.json",
        b'{"mcpServers": {"one": {"command": "x"}, "one": {"command": "y"}}}',
        "mcp import c.json --yes",
        'c.json: the key "one" occurs twice in one object. Remove one of them.',
    ),
    "no UTF-8": ("c.json", b"\xff\xfe", "mcp import c.json --yes", "c.json: cannot be read: 'utf-8' codec"),
}


@pytest.mark.parametrize(("name", "content", "words", "reason"), READS.values(), ids=READS)
def test_what_a_file_could_mislead_with_is_not_read(
    name: str, content: bytes, words: str, reason: str, folder: Path, in_process: Run
) -> None:
    (folder / name).write_bytes(content)
    done = in_process(*words.split(), code=None)
    assert done.returncode and reason in done.stdout + done.stderr


def test_a_model_of_a_folder_that_is_too_large_to_be_compared_is_not_used(
    folder: Path, program: Run, environment: dict[str, str]
) -> None:
    del environment[TRUST_VARIABLE]
    (folder / "mcp_config.toml").write_text('[chat]\nmodel = "m.gguf"\n', encoding="utf-8")
    with (folder / "m.gguf").open("wb") as file:
        file.truncate((1 << 37) + 1)  # a file with holes, which takes no room
    assert "m.gguf: it is larger than 128 GB." in program("mcp", "trust", "m.gguf", "--yes", code=5).stderr


@pytest.mark.sandbox
def test_rules_of_the_sandbox_that_are_a_link_are_not_read(shell: Shell) -> None:
    rules = Path(find_own_rules(shell.environment))
    rules.parent.mkdir(parents=True)
    (shell.folder / "rules.json").write_text('{"allowed": []}', encoding="utf-8")
    rules.symlink_to(shell.folder / "rules.json")
    shell.add_chaos()
    shell.environment[SANDBOX_VARIABLE] = "auto"
    error = shell.error("list-tools", "--server", "chaos")
    assert error["message"].startswith(f"{rules}: ") and error["type"] == "ConfigError"


SERVER = ServerConfig("one", source="/file")
ALLOWED = Allowance("one", "/file", ("/a",))


def test_an_allowance_that_cannot_be_saved_is_an_error(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    state = tmp_path / ".local/state/rkllm-chat"
    state.mkdir(parents=True)
    (state / "trust").touch()
    with pytest.raises(ConfigError, match=f"What you allow cannot be saved: {state} is not writable."):
        save_allowance(SERVER, ALLOWED, environment)


def test_rules_that_cannot_be_written_are_an_error_and_stay(tmp_path: Path) -> None:
    environment, limits = {"HOME": str(tmp_path)}, resource.getrlimit(resource.RLIMIT_FSIZE)
    rules = Path(find_own_rules(environment))
    rules.parent.mkdir(parents=True)
    known = [{"names": [f"a-{number}"], "reason": "x"} for number in range(500)]
    rules.write_text(json.dumps({"known": known, "allowed": [{"server": "one", "file": "/file"}]}), encoding="utf-8")
    before = rules.read_bytes()
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limits[1]))
    try:
        with pytest.raises(ConfigError, match=r"sandbox-rules\.json cannot be written: File too large"):
            save_allowance(SERVER, ALLOWED, environment)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert rules.read_bytes() == before


@pytest.mark.slow
def test_a_decision_that_another_program_keeps_from_being_stored_is_an_error(
    shell: Shell, program: Run, environment: dict[str, str]
) -> None:
    """It takes the ten seconds for which one waits."""
    shell.add_chaos()
    del environment[TRUST_VARIABLE]
    state = Path(environment["HOME"], ".local/state/rkllm-chat")
    state.mkdir(parents=True, mode=0o700)
    with (state / "edits.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = program("trust", "chaos", "--yes", code=3)
    assert "What you have decided cannot be stored: " in done.stderr and "another chat hangs" in done.stderr
