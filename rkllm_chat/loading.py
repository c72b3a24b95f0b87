"""Loads a model behind everything else, and remembers how long it took. It knows no screen.

A load cannot be stopped, so the end of the program must not wait for it: the thread is one that dies with the program.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .backends import choose, open_backend
from .chat import Backend
from .config import Settings
from .events import Loading
from .measured import Measured

FILE = "measured.json"


def expect_load(settings: Settings, state: Path) -> Loading:
    """What is about to be loaded, and how long that took the last time."""
    name = name_of(settings)
    return Loading(name, Measured(state / FILE).get("load", name))


def load_model(settings: Settings, state: Path) -> asyncio.Future[Backend]:
    """The model of the settings, once it is there. Raises ModelError and the like."""
    loop = asyncio.get_running_loop()
    loaded: asyncio.Future[Backend] = loop.create_future()

    def work() -> None:
        begun = time.monotonic()
        try:
            backend = open_backend(settings)
        except BaseException as error:
            tell(loaded.set_exception, error)
            return
        Measured(state / FILE).note("load", name_of(settings), time.monotonic() - begun)
        tell(loaded.set_result, backend)

    def tell(settle: Callable[[Any], None], value: Any) -> None:
        def settle_once() -> None:
            if not loaded.done():
                settle(value)

        with contextlib.suppress(RuntimeError):  # the loop has been closed: nobody waits any more
            loop.call_soon_threadsafe(settle_once)

    threading.Thread(target=work, name="load", daemon=True).start()
    return loaded


def name_of(settings: Settings) -> str:
    """The model's file, or what is behind a URL; nothing of it that may be secret."""
    if choose(settings) == "openai":
        url = urlsplit(next(iter(settings.model.split()), ""))
        return url.fragment or settings.openai.model or url.hostname or ""
    return Path(settings.model).name or "tiny-tools.gguf"
