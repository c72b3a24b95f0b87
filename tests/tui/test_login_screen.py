"""Logins in the real program: on a pseudo terminal with a browser or without one, and for a script."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mcp_client.gate import Gate, open_gate
from mcp_client.logins import fetch
from stage import NO_BOARD, Screen, call_text

OpenScreen = Callable[..., Screen]
Script = Callable[..., str]
Run = Callable[..., "subprocess.CompletedProcess[str]"]

# Requests the URL that it is given, as a browser would.
BROWSER = """#!{python}
import sys, urllib.request
urllib.request.urlopen(sys.argv[1]).read()
"""


@pytest.fixture
def gate(folder: Path) -> Iterator[Gate]:
    """A server that requires a login, in the configuration of the folder."""
    with open_gate() as gate:
        text = f'[policy]\napprove = "all"\n[[servers]]\nname = "gate"\nurl = "{gate.url}"\n{NO_BOARD}'
        (folder / "mcp_config.toml").write_text(text, encoding="utf-8")
        yield gate


def read_url(screen: Screen, gate: Gate, number: int = 1) -> str:
    """Wait for the question and return the URL that the screen shows, which is longer than a line."""
    address = re.compile(re.escape(gate.issuer) + r"/authorize\?[^\s\x1b]+\s")

    def find() -> list[str]:
        shown = screen.bytes.decode(errors="replace").split("Open this URL")[1:]
        return [found[0].split()[0] for part in shown if (found := address.search(part))]

    screen.wait_until(lambda: len(find()) >= number, "an address to visit")
    screen.wait_for("Login to gate:")
    assert len(find()[-1]) > 300
    return find()[-1]


def agree(screen: Screen) -> None:
    """Agree to log in, which is asked before anything is sent to the authorization server."""
    screen.wait_for_end_of_line("Log in? [y/N]")
    screen.type("y")


def finish_login(screen: Screen) -> None:
    screen.wait_for("1/1 server")
    screen.wait_for_prompt()


def test_the_chat_asks_for_a_login_and_continues_after_the_redirect(
    gate: Gate, open_screen: OpenScreen, script: Script
) -> None:
    screen = open_screen("--model", script(call_text("act"), "Done."))
    agree(screen)
    url = read_url(screen, gate)
    screen.wait_for("[MCP: Server 'gate' requires a login. Open this URL in any browser:]")
    _, page, _ = fetch(fetch(url)[2])
    assert page.startswith("The login was received.")
    finish_login(screen)
    screen.enter("act", "[MCP: Tool 'act' completed]", "Done.")
    screen.leave()


def test_a_login_is_cancelled_and_repeated_later(gate: Gate, open_screen: OpenScreen, script: Script) -> None:
    screen = open_screen("--model", script("Hello."))
    screen.wait_for_end_of_line("Log in? [y/N]")
    assert {visit.path for visit in gate.visits if visit.method == "POST"} == {"/mcp"}
    screen.say("n", "which was cancelled.")
    screen.wait_for_prompt()
    screen.type("/mcp auth gate\r")
    read_url(screen, gate)
    screen.say("\x03", "requires a login, which was cancelled.")
    screen.wait_for_prompt()
    screen.type("/mcp auth gate\r")
    url = read_url(screen, gate, 2)
    fetch(fetch(url)[2])
    screen.wait_for("Server 'gate' is connected.")
    screen.wait_for_prompt()
    screen.enter("/mcp auth gate forget", "The saved login for server 'gate' was deleted")


def test_a_browser_is_opened_on_request(
    gate: Gate, open_screen: OpenScreen, script: Script, folder: Path, environment: dict[str, str]
) -> None:
    browser = folder / "browser"
    browser.write_text(BROWSER.format(python=sys.executable), encoding="utf-8")
    browser.chmod(0o755)
    environment["BROWSER"] = str(browser)
    screen = open_screen("--model", script("Hello."))
    agree(screen)
    screen.wait_for("Press o to open it in the browser")
    screen.wait_for("Login to gate:")
    assert "/authorize" not in gate.paths()
    screen.say("o\r", "1/1 server")
    assert gate.grants() == ["authorization_code"]


@pytest.mark.slow
def test_a_script_fails_before_a_login_and_uses_the_pasted_one_after(
    gate: Gate, open_screen: OpenScreen, script: Script, program: Run
) -> None:
    model = script(call_text("act"), "Done.")
    command = ("-p", "act", "--model", model, "--output-format", "json")
    error = json.loads(program(*command, code=4).stdout)["error"]
    assert error["type"] == "AuthError"
    assert "/mcp auth gate" in error["details"]["hint"]
    screen = open_screen("--model", model)
    agree(screen)
    url = read_url(screen, gate)
    assert not any("Press o" in line for line in screen.lines())
    screen.type(f"{fetch(url)[2]}\r")
    finish_login(screen)
    screen.leave()
    program(*command)
