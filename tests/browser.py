"""Drive a headless browser over its DevTools protocol: what a page shows, does and requests."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

BROWSER = "RKLLM_CHAT_BROWSER"
"""Names the browser to use (default: `chromium`); tests fail if the named one is missing."""

LIMIT_S = 20.0


def find_browser() -> str:
    return os.environ.get(BROWSER) or shutil.which("chromium") or ""


class Page:
    """One page. `asked`: the URLs that it requested. `complaints`: messages of the browser about it."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._number = 0
        self.asked: list[str] = []
        self.complaints: list[str] = []
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **values: Any) -> dict[str, Any]:
        """Send a command of the protocol and return its result; events in between are recorded."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": values}))
        while (message := self._receive()).get("id") != self._number:
            pass
        assert "error" not in message, message
        result: dict[str, Any] = message["result"]
        return result

    def open(self, place: Path | str) -> None:
        """Open a file or a URL and wait until it is loaded."""
        self.asked.clear()
        self.complaints.clear()
        self.call("Page.navigate", url=place if isinstance(place, str) else place.as_uri())
        while self._receive().get("method") != "Page.loadEventFired":
            pass

    def look(self, expression: str) -> Any:
        """Evaluate a JavaScript expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def click(self, selector: str) -> None:
        """Scroll an element into view and click its center."""
        element = f"document.querySelector({json.dumps(selector)})"
        self.look(f"{element}.scrollIntoView({{block: 'center'}})")
        box = self.look(
            f"(() => {{const b = {element}.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]}})()"
        )
        x, y = box[0] + box[2] / 2, box[1] + box[3] / 2
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def resize(self, width: int, height: int, dark: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=True)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def _receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._socket.recv(timeout=LIMIT_S))
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.asked.append(message["params"]["request"]["url"])
            case "Log.entryAdded":
                self.complaints.append(message["params"]["entry"]["text"])
            case "Runtime.exceptionThrown" | "Page.javascriptDialogOpening":
                self.complaints.append(str(message["params"]))
            case _:
                pass
        return message


@contextmanager
def open_browser(folder: Path) -> Iterator[Page]:
    """Run a browser with a temporary profile below a folder."""
    command = [
        find_browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--disable-background-networking", "--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as program:
        assert program.stderr
        try:
            lines = iter(program.stderr.readline, "")
            url = next(found[1] for line in lines if (found := re.search(r"listening on (ws://\S+)", line)))
            with connect(url, max_size=None) as browser, connect(open_tab(browser, url), max_size=None) as tab:
                yield Page(tab)
                browser.send(json.dumps({"id": 2, "method": "Browser.close"}))
        finally:
            program.terminate()
            program.communicate(timeout=LIMIT_S)


def open_tab(browser: ClientConnection, url: str) -> str:
    """Open a tab and return its DevTools URL."""
    browser.send(json.dumps({"id": 1, "method": "Target.createTarget", "params": {"url": "about:blank"}}))
    target = json.loads(browser.recv(timeout=LIMIT_S))["result"]["targetId"]
    return re.sub(r"/devtools/browser/.*", f"/devtools/page/{target}", url)
