"""A folder's model is read by native code only as the user has accepted it: the program run in such a folder."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from backends.openai.service import Service
from mcp_client.chaos_http import serving
from mcp_servers.serving import serve
from rkllm_chat.config.files import TRUST_VARIABLE
from rkllm_chat.core.messages import Message
from rkllm_chat.storage.session_files import SessionDirectory, SessionLog
from rkllm_chat.storage.session_records import Setup
from stage import OpenScreen, Run

pytestmark = pytest.mark.model
ASK = ("-p", "Hello!", "--no-servers", "--max-tokens", "2")
REFUSED, QUESTION = "you have not accepted the present contents", "trust them until they change? [y/N]"


@pytest.fixture
def clone(environment: dict[str, str], folder: Path, shipped_model: Path) -> Path:
    """A folder that somebody else made; its configuration names a model in it."""
    del environment[TRUST_VARIABLE]
    shutil.copy(shipped_model, folder / "m.gguf")
    (folder / "mcp_config.toml").write_text('[chat]\nmodel = "m.gguf"\n', encoding="utf-8")
    return folder


def append(path: Path) -> None:
    """Change a file without changing what it says; llama.cpp ignores what follows the tensors."""
    with path.open("ab") as file:
        file.write(b"\0" * 32)


def test_a_folders_model_is_not_loaded_before_it_was_accepted_and_again_after_a_change(
    clone: Path, program: Run
) -> None:
    error = json.loads(program(*ASK, "--output-format", "json", code=3).stdout)["error"]
    assert (error["type"], error["details"]["path"]) == ("ConfigError", "m.gguf")
    assert error["details"]["accept"] == "rkllm-chat mcp trust m.gguf"
    assert REFUSED in program("serve", "llm", "--config", "", code=3).stderr
    shown = program("mcp", "trust", "m.gguf", "--yes").stdout
    model = clone / "m.gguf"
    assert f'"m.gguf", {model.stat().st_size} bytes, SHA-256 {hashlib.sha256(model.read_bytes()).hexdigest()}' in shown
    assert program(*ASK).stdout
    append(model)
    assert REFUSED in program(*ASK, code=3).stderr
    program("mcp", "trust", "m.gguf", "--yes")
    status = model.stat()
    with model.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\1")
    os.utime(model, ns=(status.st_atime_ns, status.st_mtime_ns))  # the same size and time
    assert REFUSED in program(*ASK, code=3).stderr


def write_session(environment: dict[str, str], folder: Path, model: str) -> str:
    """A session that has used a model last, as this program or somebody else has written it."""
    shelf = SessionDirectory(Path(environment["HOME"]) / ".local/state/rkllm-chat/sessions")
    log = SessionLog(shelf, print)
    log.append(Setup(model="m", folder=str(folder), settings={"model": model}))
    log.append(Message("user", "Hello!"))
    log.close()
    return log.name


def test_a_session_brings_no_model_of_the_folder_that_was_not_accepted(
    clone: Path, program: Run, environment: dict[str, str]
) -> None:
    """Neither one that has changed since the session used it, nor a script, which would call tools by itself."""
    program("mcp", "trust", "m.gguf", "--yes")
    (clone / "mcp_config.toml").write_text("", encoding="utf-8")
    ask = (*ASK, "--resume", write_session(environment, clone, str(clone / "m.gguf")))
    assert program(*ask).stdout
    append(clone / "m.gguf")
    assert REFUSED in program(*ask, code=3).stderr
    assert program(*ask, "--model", "m.gguf").stdout
    (clone / "script.json").write_text('["Scripted."]', encoding="utf-8")
    name = write_session(environment, clone, str(clone / "script.json"))
    assert "Scripted" not in program(*ASK, "--resume", name).stdout
    assert "Scripted" in program(*ASK, "--resume", name, "--model", "script.json").stdout


def test_a_session_sends_the_users_key_to_no_other_service(
    clone: Path, program: Run, environment: dict[str, str]
) -> None:
    environment["OUR_KEY"] = "key-of-the-user"
    own = Path(environment["HOME"], ".config/rkllm-chat/config.toml")
    own.parent.mkdir(parents=True)
    (clone / "mcp_config.toml").unlink()
    with serving(Service()) as service:
        key, other = '[openai]\nkey_env = "OUR_KEY"\n', f"{service.url.removesuffix('v1')}other/v1"
        for text, is_used in ((key, False), ("", True), (f'[chat]\nmodel = "{other}"\n{key}', True)):
            own.write_text(text, encoding="utf-8")
            service.others.clear()
            program(*ASK, "--resume", write_session(environment, clone, service.url), code=None)
            assert any(asked.path.startswith("/v1") for asked in service.others) is is_used, text


def test_the_same_contents_in_a_new_checkout_are_still_accepted(clone: Path, program: Run) -> None:
    program("mcp", "trust", "m.gguf", "--yes")
    shutil.copy(clone / "m.gguf", clone / "new")
    (clone / "new").replace(clone / "m.gguf")
    assert program(*ASK).stdout


def test_files_that_the_user_names_are_not_asked_about(clone: Path, program: Run, environment: dict[str, str]) -> None:
    assert program(*ASK, "--model", "m.gguf").stdout
    assert program(*ASK, "--config", "mcp_config.toml").stdout
    own = Path(environment["HOME"], ".config/rkllm-chat/config.toml")
    own.parent.mkdir(parents=True)
    own.write_text('[chat]\nmodel = "m.gguf"\n', encoding="utf-8")
    (clone / "mcp_config.toml").unlink()
    assert program(*ASK).stdout


BESIDE = {
    "projector": ("m.gguf", "mmproj-m.gguf", ""),
    "named projector": ("m.gguf", "p.gguf", 'mmproj = "p.gguf"\n'),
    "another part": ("m-00001-of-00002.gguf", "m-00002-of-00002.gguf", ""),
    "template": ("m.rkllm", "chat_template.jinja", ""),
    "template in a configuration": ("m.rkllm", "tokenizer_config.json", ""),
    "tokenizer": ("m.rkllm", "tokenizer.json", ""),
    "encoder": ("qwen2-vl-2b.rkllm", "qwen2-vl-2b_vision.rknn", ""),
}


@pytest.mark.parametrize("case", BESIDE)
def test_what_an_engine_finds_beside_the_model_is_accepted_with_it(case: str, clone: Path, program: Run) -> None:
    model, beside, more = BESIDE[case]
    (clone / "m.gguf").rename(clone / model)
    (clone / beside).write_bytes(b"{}")
    (clone / "mcp_config.toml").write_text(f'[chat]\nmodel = "{model}"\n{more}', encoding="utf-8")
    assert f'"{beside}", 2 bytes' in program("mcp", "trust", model, "--yes").stdout
    assert "not accepted" not in program(*ASK, code=None).stderr
    append(clone / beside)
    refused = program(*ASK, code=3).stderr
    assert REFUSED in refused and beside in refused


@pytest.mark.slow
def test_a_folders_projector_for_the_users_model_is_asked_about(clone: Path, program: Run) -> None:
    (clone / "mcp_config.toml").write_text('[chat]\nmmproj = "m.gguf"\n', encoding="utf-8")
    assert "names m.gguf, which native code would read" in program(*ASK, code=3).stderr
    assert "m.gguf" in program("mcp", "trust", "m.gguf", "--yes").stdout
    assert "not accepted" not in program(*ASK, code=None).stderr
    (clone / "mcp_config.toml").write_text('[chat]\nmmproj = "none"\n', encoding="utf-8")
    assert program(*ASK).stdout


@pytest.mark.parametrize("answer", ["y", "\r"], ids=["yes", "Enter"])
def test_the_chat_asks_before_it_loads_and_loads_what_it_has_shown(
    answer: str, clone: Path, open_screen: OpenScreen
) -> None:
    digest = hashlib.sha256((clone / "m.gguf").read_bytes()).hexdigest()
    screen = open_screen("--no-servers", size=(300, 40))
    screen.wait_for_end_of_line(QUESTION)
    assert any(digest in line for line in screen.lines())
    screen.type(answer)
    if answer == "y":
        screen.wait_for_prompt(60)
        screen.leave()
        return
    screen.wait_for(REFUSED)
    assert screen.wait_for_end() == 3


def test_a_model_that_is_exchanged_while_the_question_is_open_is_not_loaded(
    clone: Path, open_screen: OpenScreen
) -> None:
    screen = open_screen("--no-servers", size=(300, 40))
    screen.wait_for_end_of_line(QUESTION)
    append(clone / "m.gguf")
    screen.type("y")
    screen.wait_for(REFUSED)
    assert screen.wait_for_end() == 3


@pytest.mark.usefixtures("clone")
def test_the_answer_holds_until_the_end_where_it_cannot_be_stored(
    open_screen: OpenScreen, environment: dict[str, str]
) -> None:
    local = Path(environment["HOME"], ".local")
    shutil.rmtree(local)
    local.mkdir()
    (local / "state").symlink_to("missing")
    screen = open_screen("--no-servers", size=(120, 40))
    screen.wait_for_end_of_line(QUESTION)
    screen.type("y")
    screen.wait_for_prompt(60)
    screen.leave()


@pytest.mark.parametrize("kind", ["pipe", "folder", "missing", "endless"])
def test_what_is_no_regular_file_is_an_error_and_not_waited_for(kind: str, clone: Path, program: Run) -> None:
    model = clone / "m.gguf"
    model.unlink()
    match kind:
        case "pipe":
            os.mkfifo(model)
        case "folder":
            model.mkdir()
        case "endless":
            with model.open("wb") as file:
                file.truncate(1 << 40)
    done = program("mcp", "trust", "m.gguf", "--yes", code=5)
    assert done.stderr.startswith("rkllm-chat: m.gguf: ") and done.stderr.count("\n") <= 2


def test_the_api_server_does_not_start_with_a_model_that_was_not_accepted(
    clone: Path, program: Run, environment: dict[str, str]
) -> None:
    assert REFUSED in program("serve", "openai", "--port", "0", code=3).stderr
    program("mcp", "trust", "m.gguf", "--yes")
    options: Any = {"port_option": "--port", "env": environment, "cwd": clone}
    with serve("openai", **options) as served:
        assert served.url
