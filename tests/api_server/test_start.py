"""How the service starts: as its units and its image start it, and what it says where it cannot."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from api_server.conftest import Connect, StartApi
from fork_server import run
from mcp_servers.serving import serve
from stage import PROGRAM

ROOT = Path(__file__).parents[2]
UNITS = ROOT / "examples/systemd"
TOKEN = "a-token-of-twenty-characters"
HELLO: Any = [{"role": "user", "content": "What is 12 * 34?"}]


def read_unit(name: str, states: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command line and the variables of a unit as systemd reads them: %S is its folder of states."""
    text = (UNITS / name).read_text(encoding="utf-8")
    values = dict(re.findall(r"^(ExecStart|Environment)=(.*)$", text, re.MULTILINE))
    command, variables = (
        shlex.split(values.get(key, "").replace("%S", str(states)).replace("%h", str(states / "home")))
        for key in ("ExecStart", "Environment")
    )
    needed = {"RKLLM_CHAT_TOKEN": TOKEN} if "EnvironmentFile=" in text else {}
    return command, {**dict(variable.split("=", 1) for variable in variables), **needed}


@pytest.mark.model
@pytest.mark.parametrize("name", [path.name for path in UNITS.glob("*.service") if "governor" not in path.name])
def test_a_unit_serves_with_its_command_line(
    name: str, environment: dict[str, str], shipped_model: Path, tmp_path: Path
) -> None:
    states = tmp_path / "states"
    for folder in ("home", "rkllm-chat", "rkllm-chat-board"):
        (states / folder).mkdir(parents=True)
    (states / "rkllm-chat/SmolLM2-135M-renamed.gguf").symlink_to(shipped_model)
    (program, *command), variables = read_unit(name, states)
    assert Path(program).name == "rkllm-chat" and command[0] == "serve"
    port = "--http" if "--http" in command else "--port"
    free_port = [*command[2:], port, "0"]  # the last one counts
    environment = {**environment, **variables}
    with serve(command[1], *free_port, env=environment, cwd=states, port_option=port) as served:
        if command[1] != "openai":
            return
        headers = served.headers or {"Authorization": f"Bearer {TOKEN}"}
        body = {"messages": HELLO, "max_tokens": 2}
        url = f"http://127.0.0.1:{served.port}/v1/chat/completions"
        assert httpx.post(url, json=body, headers=headers, timeout=30).json()["usage"]["completion_tokens"] == 2


def test_the_governors_unit_sets_the_clocks_that_a_board_has(tmp_path: Path) -> None:
    files = [
        tmp_path / "devices/system/cpu/cpufreq/policy4/scaling_governor",
        tmp_path / "class/devfreq/fdab0000.npu/governor",
        tmp_path / "class/devfreq/fb000000.gpu/governor",
    ]
    for file in files:
        file.parent.mkdir(parents=True)
        file.write_text("ondemand\n")
    command, _ = read_unit("rkllm-chat-governor.service", tmp_path)
    subprocess.run([part.replace("/sys/", f"{tmp_path}/").replace("$$", "$") for part in command], check=True)
    assert [file.read_text().strip() for file in files] == ["performance", "performance", "ondemand"]


@pytest.mark.model
def test_the_image_serves_with_the_command_line_of_compose(environment: dict[str, str], folder: Path) -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    command = services["model"]["command"]
    environment = {**environment, "RKLLM_CHAT_TOKEN": TOKEN}
    options = [*command[2:], "--port", "0"]
    with serve(command[1], *options, env=environment, cwd=folder, port_option="--port") as served:
        url = f"http://127.0.0.1:{served.port}/v1/models"
        headers = {"Authorization": f"Bearer {TOKEN}", "Host": "model:8080"}  # as Open WebUI beside it asks
        assert httpx.get(url, headers=headers, timeout=30).json()["data"][0]["id"] == "tiny-tools.gguf"


UNUSABLE = [
    (["--model", "none.gguf"], 5, "none.gguf: No such file or directory."),
    (["--model", "text.gguf"], 5, "not a GGUF file"),
    (["--model", "empty"], 5, "no .gguf or .rkllm file. Put one model there"),
    (["--model", "model.rkllm"], 5, "librkllmrt.so was not found"),
    (["--model", "model.rkllm", "--config", "npu.toml"], 3, "which model it is. Name its family: --set family="),
    (["--model", "model.rkllm", "--config", "npu.toml", "--set", "family=nothing"], 3, 'family is known as "nothing"'),
    (["--model", "http://user@host/v1"], 3, "key_env"),
    (["--token-env", "UNSET"], 2, "UNSET"),
]


@pytest.mark.parametrize(("options", "code", "words"), UNUSABLE, ids=range(len(UNUSABLE)))
def test_what_cannot_work_ends_with_a_sentence_before_it_listens(
    options: list[str],
    code: int,
    words: str,
    environment: dict[str, str],
    folder: Path,
    compiled: Callable[[str], Path],
) -> None:
    (folder / "empty").mkdir()
    (folder / "text.gguf").write_text("no model")
    (folder / "model.rkllm").write_text("no model")
    (folder / "npu.toml").write_text(f"[rkllm]\nlibrary = {json.dumps(str(compiled('G')))}\n")
    command = [*PROGRAM, "serve", "openai", "--port", "0", *options]
    done = run(command, cwd=folder, env=environment, encoding="utf-8")
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert words in done.stderr and "listens" not in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_model_that_may_come_later_is_waited_for(
    start_api: StartApi, compiled: Callable[[str], Path], folder: Path, shipped_model: Path
) -> None:
    (folder / "npu.toml").write_text(f"[rkllm]\nlibrary = {json.dumps(str(compiled('G')))}\n")
    shutil.copy(shipped_model, folder / "model.rkllm")  # what it is stands in no file yet
    served = start_api("--no-check", "--model", "model.rkllm", "--config", "npu.toml")

    def ask() -> httpx.Response:
        body = {"messages": HELLO, "max_tokens": 2}
        return httpx.post(f"{served.url}/chat/completions", json=body, headers=served.headers, timeout=30)

    refused = ask()
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "model_unavailable")
    (folder / "config.json").write_text('{"_name_or_path": "somebody/tiny-tools", "model_type": "unheard-of"}')
    assert ask().json()["usage"]["completion_tokens"] == 2


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize("layout", "GH")
def test_a_model_of_any_name_answers_once_its_family_is_named(
    layout: str, compiled: Callable[[str], Path], folder: Path, shipped_model: Path, start_api: Any, connect: Connect
) -> None:
    (folder / "npu.toml").write_text(f"[rkllm]\nlibrary = {json.dumps(str(compiled(layout)))}\n")
    shutil.copy(shipped_model, folder / "model.rkllm")
    client = connect(start_api("--config", "npu.toml", "--model", "model.rkllm", "--family", "tiny-tools"))
    reply = client.chat.completions.create(model="model.rkllm", messages=HELLO, max_tokens=2)
    assert reply.usage and reply.usage.completion_tokens == 2
