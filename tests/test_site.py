"""The documentation as a site in a browser: nothing from elsewhere, no page wider than a phone, a working search."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from browser import LIMIT_S, Page, open_browser
from isolated_user import SITE

WIDTHS = ((1280, 900), (390, 844))

pytestmark = [pytest.mark.browser, pytest.mark.site]


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    """The address at which the site is served."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=os.environ[SITE])) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    with open_browser(tmp_path) as opened:
        yield opened


@pytest.mark.timeout(300)
def test_every_page_fits_a_phone_and_loads_nothing_from_elsewhere(page: Page, address: str) -> None:
    names = sorted(path.name for path in Path(os.environ[SITE]).glob("*.html"))
    assert {"index.html", "board.ja.html", "commands.html", "reference.html", "settings.html"} <= set(names)
    for width, height in WIDTHS:
        page.resize(width, height)
        for name in names:
            page.open(f"{address}{name}")
            assert page.look("document.documentElement.scrollWidth") <= width, (name, width)
            assert [url for url in page.asked if not url.startswith((address, "data:"))] == [], name
            assert page.complaints == [], name


def test_the_search_finds_a_setting_and_a_page(page: Page, address: str) -> None:
    page.open(f"{address}index.html?q=prompt_profile")
    found = "[...document.querySelectorAll('.md-search-result__link')].map(link => link.href)"
    end = time.monotonic() + LIMIT_S
    while not (links := page.look(found)) and time.monotonic() < end:
        time.sleep(0.05)
    assert any(link.startswith(f"{address}settings.html") for link in links), links
    assert all(url.startswith((address, "data:", "blob:")) for url in page.asked)
