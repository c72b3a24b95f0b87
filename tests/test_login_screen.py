"""A login through the real program: on a pseudo terminal with a browser or without one, and for a script."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from servers.gate import Gate, open_gate
from servers.logins import fetch
from stage import Screen, call_text

OpenScreen = Callable[..., Screen]
Script = Callable[..., str]
Run = Callable[..., "subprocess.CompletedProcess[str]"]

# Stands for a browser: goes where it is sent.
BROWSER = """#!{python}
import sys, urllib.request
urllib.request.urlopen(sys.argv[1]).read()
"""


@pytest.fixture
def gate(folder: Path) -> Iterator[Gate]:
    """A server that wants a login, named in the configuration of the folder."""
    with open_gate() as gate:
        text = f'[policy]\napprove = "all"\n[[servers]]\nname = "gate"\nurl = "{gate.url}"\n'
        (folder / "mcp_config.toml").write_text(text, encoding="utf-8")
        yield gate


def read_url(screen: Screen, gate: Gate, number: int = 1) -> str:
    """An address that the screen showed, which is longer than a line of it; then the question is there."""
    address = re.compile(re.escape(gate.issuer) + r"/authorize\?[^\s\x1b]+\s")

    def find() -> list[str]:
        shown = screen.bytes.decode(errors="replace").split("Visit this address")[1:]
        return [found[0].split()[0] for part in shown if (found := address.search(part))]

    screen.wait_until(lambda: len(find()) >= number, "an address to visit")
    screen.wait_for("Login to gate:")
    assert len(find()[-1]) > 300
    return find()[-1]


def test_the_chat_asks_for_a_login_and_goes_on_when_the_browser_has_been_there(
    gate: Gate, open_screen: OpenScreen, script: Script
) -> None:
    screen = open_screen("--model", script(call_text("act"), "Done."))
    url = read_url(screen, gate)
    screen.wait_for("[MCP: Server 'gate' wants you to log in. Visit this address in any browser:]")
    _, page, _ = fetch(fetch(url)[2])
    assert page.startswith("The login was received.")
    screen.wait_for("1/1 servers")
    screen.wait_for_prompt()
    screen.type("act\r")
    screen.wait_for("[MCP: Tool 'act' completed]")
    screen.wait_for("Done.")
    screen.wait_for_prompt()
    screen.type("\x04")
    assert screen.wait_for_end() == 0


def test_over_ssh_the_address_where_the_login_ended_is_pasted(
    gate: Gate, open_screen: OpenScreen, script: Script
) -> None:
    screen = open_screen("--model", script("Hello."))
    url = read_url(screen, gate)
    assert not any("o opens it" in line for line in screen.lines())
    screen.type(f"{fetch(url)[2]}\r")
    screen.wait_for("1/1 servers")
    screen.wait_for_prompt()
    screen.type("hi\r")
    screen.wait_for("Hello.")


@pytest.mark.parametrize("keys", ["\r", "\x03"], ids=["Enter", "Ctrl+C"])
def test_a_login_is_given_up_and_begun_again_later(
    keys: str, gate: Gate, open_screen: OpenScreen, script: Script
) -> None:
    screen = open_screen("--model", script("Hello."))
    read_url(screen, gate)
    screen.type(keys)
    screen.wait_for("wants a login, which was given up.")
    screen.wait_for_prompt()
    screen.type("/mcp auth gate\r")
    url = read_url(screen, gate, 2)
    fetch(fetch(url)[2])
    screen.wait_for("Server 'gate' is open.")
    screen.wait_for_prompt()
    screen.type("/mcp auth gate forget\r")
    screen.wait_for("The login to server 'gate' is forgotten here")


def test_a_browser_is_opened_when_the_person_says_so(
    gate: Gate, open_screen: OpenScreen, script: Script, folder: Path, environment: dict[str, str]
) -> None:
    browser = folder / "browser"
    browser.write_text(BROWSER.format(python=sys.executable), encoding="utf-8")
    browser.chmod(0o755)
    environment["BROWSER"] = str(browser)
    screen = open_screen("--model", script("Hello."))
    screen.wait_for("o opens it in the browser")
    screen.wait_for("Login to gate:")
    assert "/authorize" not in gate.paths()
    screen.type("o\r")
    screen.wait_for("1/1 servers")
    assert gate.grants() == ["authorization_code"]


def test_a_script_is_told_to_log_in_first_and_uses_the_login_then(
    gate: Gate, open_screen: OpenScreen, script: Script, program: Run
) -> None:
    model = script(call_text("act"), "Done.")
    done = program("-p", "act", "--model", model, "--output-format", "json", code=4)
    answer = json.loads(done.stdout)
    assert answer["error"]["type"] == "AuthError"
    assert "/mcp auth gate" in answer["error"]["details"]["hint"]
    screen = open_screen("--model", model)
    screen.type(f"{fetch(read_url(screen, gate))[2]}\r")
    screen.wait_for("1/1 servers")
    screen.wait_for_prompt()
    screen.type("\x04")
    assert screen.wait_for_end() == 0
    program("-p", "act", "--model", model, "--output-format", "json")
