"""Load a model in a background thread and remember how long it took.

A load cannot be interrupted and must not delay the end of the program, so the thread is a daemon.
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

from ..backends import choose_backend, open_backend
from ..backends.base import Backend, LoadReporter
from ..config.settings import Settings
from ..core.events import Loading
from ..core.i18n import Words
from ..core.protocols import Notify
from ..storage.local_statistics import Measurements

MEASUREMENTS_FILE = "measured.json"
"""Name of the file of measurements in the state directory."""


def make_loading_event(settings: Settings, state: Path) -> Loading:
    """Return the event for a load that is about to start, with the previous load time."""
    name = name_model(settings)
    return Loading(name, Measurements(state / MEASUREMENTS_FILE).get_figure("load", name))


def load_model(settings: Settings, state: Path) -> asyncio.Future[Backend]:
    """Start to load the model of the settings.

    Returns:
        A future with the backend, or with ModelError or another ChatError.
    """
    loop = asyncio.get_running_loop()
    loaded: asyncio.Future[Backend] = loop.create_future()

    def work() -> None:
        started_at = time.monotonic()
        try:
            backend = open_backend(settings)
        except BaseException as error:
            deliver(loaded.set_exception, error)
            return
        Measurements(state / MEASUREMENTS_FILE).record_figure(
            "load", name_model(settings), time.monotonic() - started_at
        )
        deliver(loaded.set_result, backend)

    def deliver(set_outcome: Callable[[Any], None], value: Any) -> None:
        def set_once() -> None:
            if not loaded.done():
                set_outcome(value)

        with contextlib.suppress(RuntimeError):  # the event loop is closed: the result is not needed
            loop.call_soon_threadsafe(set_once)

    threading.Thread(target=work, name="load", daemon=True).start()
    return loaded


def report_load(backend: Backend, words: Words, notify: Notify) -> None:
    """Tell the user what the backend says of the model that it has loaded."""
    for sentence in backend.load_notices if isinstance(backend, LoadReporter) else ():
        notify(words(sentence.key, **sentence.values), "warning")


def name_model(settings: Settings) -> str:
    """Return the model's file name, or the model or host of a URL, without anything secret."""
    if choose_backend(settings) == "openai":
        try:
            url = urlsplit(next(iter(settings.model.split()), ""))
        except ValueError:
            return ""  # opening it says what is wrong
        return url.fragment or settings.openai.model or url.hostname or ""
    return Path(settings.model).name or "tiny-tools.gguf"
