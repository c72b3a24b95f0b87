"""After a call that its sandbox made fail, the user is offered more; /mcp allow does the same, and it is remembered."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_client.enclosed import PROBE, listening
from rkllm_chat.config.files import TRUST_VARIABLE
from rkllm_chat.mcp_client.process.start import SANDBOX_VARIABLE
from stage import Screen, call_text

from .server_configs import HARBOUR, write_servers

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]
TRUST = ".local/state/rkllm-chat/trust"
WIDE = {"size": (160, 40), SANDBOX_VARIABLE: "auto"}
OFFER = "Allow this folder from now on? [y/N]"


@pytest.fixture
def target(folder: Path, environment: dict[str, str]) -> Path:
    """A folder that the probing server, which is configured in `folder`, cannot write."""
    entry = {"command": sys.executable, "args": [str(PROBE)]}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"probe": entry}}), encoding="utf-8")
    place = Path(environment["HOME"]) / "notes"
    place.mkdir()
    return place


def clear(screen: Screen) -> None:
    screen.type("\x0c")
    screen.wait_until(lambda: screen.lines()[:1] == [">"], "a cleared screen")


def find_record(tmp_path: Path) -> Path:
    """The one record of what was decided of the probing server."""
    (record,) = (tmp_path / "home" / TRUST).glob("probe-*.json")
    return record


def read_allowed(tmp_path: Path) -> Any:
    """What its record allows the probing server, by the file that defines it."""
    return json.loads(find_record(tmp_path).read_text(encoding="utf-8")).get("allowed", {})


def test_what_is_allowed_after_a_failure_lets_the_model_repeat_the_call(
    open_screen: Callable[..., Screen],
    script: Callable[..., str],
    environment: dict[str, str],
    target: Path,
    folder: Path,
    tmp_path: Path,
) -> None:
    del environment[TRUST_VARIABLE]  # what is allowed becomes a part of what was accepted
    call = call_text("do", probes=[["write", f"{target}/a.txt"]], fail=True)
    screen = open_screen("--model", script(call, call, "It is written."), "--allow", "*", **WIDE)
    screen.wait_for_end_of_line("Start it and trust it from now on? [y/N]")
    screen.type("y")
    screen.wait_for_prompt()
    screen.type("Write it.\r")
    screen.wait_for_end_of_line(OFFER)
    assert any(f"The sandbox of server 'probe' denied writing to {target}]" in line for line in screen.lines())
    assert not (target / "a.txt").exists()
    screen.type("y")
    screen.wait_for("It is written.")
    assert (target / "a.txt").exists()
    assert read_allowed(tmp_path) == {str(folder / "mcp.json"): {"write": [str(target)]}}


def test_an_offer_that_is_declined_is_made_once_and_allow_makes_up_for_it(
    open_chat: Callable[..., Screen], target: Path, tmp_path: Path
) -> None:
    screen = open_chat("--allow *", "Hello.", **WIDE)
    call = f"/call do {json.dumps({'probes': [['write', f'{target}/a.txt']], 'fail': True})}"
    screen.type(f"{call}\r")
    screen.wait_for_end_of_line(OFFER)
    screen.type("n")
    screen.wait_for(f"/mcp allow probe write {target}")
    screen.wait_for_prompt()
    clear(screen)
    screen.enter(call, "failed: ")
    assert not any(OFFER in line for line in screen.lines())
    assert not (target / "a.txt").exists()
    for line, shown in (
        ("/mcp allow probe", "may do nothing beyond its configuration"),
        ("/mcp allow probe write ~", "cannot be made writable for a server: it contains much else"),
        ("/mcp allow probe write ~/.local/state", "cannot be made writable for a server: this program keeps"),
        ("/mcp allow probe wriet ~/notes", '"wriet'),
        ("/mcp allow prob network", 'There is no server "prob".'),
        ("/mcp allow probe write ~/notes", f"may write to {target}"),
        ("/mcp allow probe network", "may use the network."),
    ):
        screen.enter(line, shown)
    (allowed,) = read_allowed(tmp_path).values()
    assert (allowed["write"], allowed["network"]) == ([str(target)], True)
    screen.enter(call, 'failed: ["ok"]')  # the probe marks each result as failed
    assert (target / "a.txt").exists()
    clear(screen)
    screen.enter("/mcp allow probe reset", "may do nothing beyond its configuration")
    assert read_allowed(tmp_path) == {}


def test_a_folder_whose_denial_ends_the_server_is_offered(open_chat: Callable[..., Screen], harbour: Path) -> None:
    call = call_text("write_log", text="all quiet")
    screen = open_chat(f"{HARBOUR} --allow *", call, call, "It is written.", **WIDE)
    screen.type("Log all quiet.\r")
    screen.wait_for_end_of_line(OFFER)
    assert any(f"The sandbox of server 'harbour' denied writing to {harbour}]" in line for line in screen.lines())
    screen.type("y")
    screen.wait_for("It is written.")
    assert (harbour / "called").exists()


def test_a_folder_whose_denial_keeps_a_server_from_starting_is_offered_at_the_start(
    open_screen: Callable[..., Screen], script: Callable[..., str], folder: Path
) -> None:
    start = f"open('called', 'w'); import runpy; runpy.run_path({str(PROBE)!r}, run_name='__main__')"
    options = write_servers(folder, "probe.toml", {"probe": [sys.executable, "-c", start, str(PROBE)]})
    screen = open_screen("--model", script("Hello."), *options.split(), **WIDE)
    screen.wait_for_end_of_line(OFFER)
    assert any(f"The sandbox of server 'probe' denied writing to {folder}]" in line for line in screen.lines())
    screen.type("y")
    screen.wait_for("1/1 server · 1 tool")
    assert (folder / "called").exists()


@pytest.mark.usefixtures("target")
def test_the_network_is_offered_unless_the_configuration_denies_it(
    open_chat: Callable[..., Screen], folder: Path, tmp_path: Path
) -> None:
    with listening() as (tcp, _):
        call = f"/call do {json.dumps({'probes': [['connect', tcp]], 'fail': True})}"
        screen = open_chat("--allow *", "Hello.", **WIDE)
        screen.type(f"{call}\r")
        screen.wait_for_end_of_line("Allow the network from now on? [y/N]")
        screen.type("y")
        screen.wait_for("Server 'probe' may use the network.")
        screen.wait_for_prompt()
        screen.enter(call, "ok heard")
        find_record(tmp_path).unlink()
        entry = {"command": sys.executable, "args": [str(PROBE)], "network": False}
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"probe": entry}}), encoding="utf-8")
        screen = open_chat("--allow *", "Hello.", **WIDE)
        screen.enter(call, "ConnectionRefusedError")
        assert not any("[y/N]" in line for line in screen.lines())
