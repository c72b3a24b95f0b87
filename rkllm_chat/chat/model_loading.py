"""Load a model in a background thread and remember how long it took.

A load cannot be interrupted and must not delay the end of the program, so the thread is a daemon.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..backends import choose_backend, open_backend
from ..backends.base import Backend, LoadReporter, StateKeeper
from ..backends.shared.model_files import resolve_model
from ..config.settings import Settings
from ..core.events import Loading
from ..core.i18n import Words
from ..core.protocols import Notify
from ..prompt.profiles import PROFILES
from ..storage.local_statistics import Measurements

MEASUREMENTS_FILE = "measured.json"
"""Name of the file of measurements in the state directory."""
_PROFILE = "profile"
"""Kind of the remembered prompt profiles in it."""
_HASHED_BYTES = 1024 * 1024
_STATES_BYTES = 64 * 1024 * 1024


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
        measurements = Measurements(state / MEASUREMENTS_FILE)
        measurements.record_figure("load", name_model(settings), time.monotonic() - started_at)
        if isinstance(backend, StateKeeper):  # an answer from the results alone replaces the prompt of the chat
            backend.keep_states(_STATES_BYTES)
        if (remembered := measurements.read_value(_PROFILE, _identify_model(settings))) in PROFILES:
            backend.profile = str(remembered)
        deliver(loaded.set_result, backend)

    def deliver(set_outcome: Callable[[Any], None], value: Any) -> None:
        def set_once() -> None:
            if not loaded.done():
                set_outcome(value)

        with contextlib.suppress(RuntimeError):  # the event loop is closed: the result is not needed
            loop.call_soon_threadsafe(set_once)

    threading.Thread(target=work, name="load", daemon=True).start()
    return loaded


def remember_profile(settings: Settings, state: Path, name: str) -> None:
    """Remember the row of PROFILES that suits a model best."""
    Measurements(state / MEASUREMENTS_FILE).write_value(_PROFILE, _identify_model(settings), name)


def _identify_model(settings: Settings) -> str:
    """Return a hash of a model file's size and both ends; of another model, its name."""
    path = resolve_model(settings.model)
    if not path.is_file():  # a URL, or a pipe, which may be read once
        return name_model(settings)
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            digest = hashlib.sha256(str(size).encode())
            for start in (0, max(0, size - _HASHED_BYTES)):
                file.seek(start)
                digest.update(file.read(_HASHED_BYTES))
        return digest.hexdigest()
    except OSError:
        return name_model(settings)


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
