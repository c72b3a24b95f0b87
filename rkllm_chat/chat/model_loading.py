"""The models that the user can switch to, and loading one: in a background thread, with a note of how long it took.

A load cannot be interrupted and must not delay the end of the program, so the thread is a daemon.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any, TypeVar
from urllib.parse import unquote

from ..backends import find_engine_of, identify_model, open_backend
from ..backends.base import Backend, LoadReporter, StateKeeper
from ..backends.shared.model_files import find_models, resolve_model
from ..config.settings import Settings
from ..core.errors import ChatError
from ..core.events import Loading
from ..core.hardware import read_memory
from ..core.i18n import Words
from ..core.protocols import Notify
from ..prompt.profiles import PROFILES
from ..storage.local_statistics import Measurements

Result = TypeVar("Result")
MEASUREMENTS_FILE = "measured.json"
"""Name of the file of measurements in the state directory."""
_PROFILE = "profile"
"""Kind of the remembered prompt profiles in it."""
_TOLD = "told"
"""Kind of what the user was told already in it."""
_STATES_BYTES = 64 * 1024 * 1024
"""Memory for the states of replaced prompts, at least: 2,390 tokens of Qwen2.5 1.5B, 1,170 of 7B."""
_STATES_FRACTION, _MAX_STATES_BYTES = 1 / 8, 1024 * 1024 * 1024
"""More where there is memory: a fraction of what is available, but no more than a long conversation can use."""
_MAX_SERVICE_LISTS = 4


def make_loading_event(settings: Settings, state: Path) -> Loading:
    """Return the event for a load that is about to start, with the previous load time."""
    name = name_model(settings)
    return Loading(name, Measurements(state / MEASUREMENTS_FILE).get_figure("load", name))


def load_model(settings: Settings, state: Path) -> asyncio.Future[Backend]:
    """Start to load the model of the settings.

    Returns:
        A future with the backend, or with ModelError or another ChatError.
    """

    def work() -> Backend:
        started_at = time.monotonic()
        backend = open_backend(settings)
        measurements = Measurements(state / MEASUREMENTS_FILE)
        measurements.record_figure("load", name_model(settings), time.monotonic() - started_at)
        if isinstance(backend, StateKeeper):  # an answer from the results alone replaces the prompt of the chat
            backend.keep_states(_choose_states_limit())
        if (remembered := measurements.read_value(_PROFILE, identify_model(settings).key)) in PROFILES:
            backend.profile = str(remembered)
        return backend

    return run_detached(work, "load")


def _choose_states_limit() -> int:
    """Return how much memory the states of replaced prompts may take."""
    memory = read_memory()
    share = int(memory.available * _STATES_FRACTION) if memory else 0
    return max(_STATES_BYTES, min(share, _MAX_STATES_BYTES))


def run_detached(work: Callable[[], Result], name: str) -> asyncio.Future[Result]:
    """Run what blocks on a thread that does not delay the end of the program; nothing interrupts it.

    Args:
        work: What to run.
        name: Name of the thread.

    Returns:
        A future with what `work` returns or raises.
    """
    done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    def run() -> None:
        try:
            deliver(done.set_result, work())
        except BaseException as error:
            deliver(done.set_exception, error)

    def deliver(set_outcome: Callable[[Any], object], value: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is closed: the result is not needed
            done.get_loop().call_soon_threadsafe(lambda: done.done() or set_outcome(value))

    # no executor, whose threads Python awaits before it ends
    threading.Thread(target=run, name=name, daemon=True).start()
    return done


def remember_profile(settings: Settings, state: Path, name: str) -> None:
    """Remember the row of PROFILES that suits a model best."""
    Measurements(state / MEASUREMENTS_FILE).write_value(_PROFILE, identify_model(settings).key, name)


def report_load(backend: Backend, words: Words, notify: Notify, state: Path) -> None:
    """Tell the user what the backend says of the model that it has loaded, some of it only once on this machine."""
    told = Measurements(state / MEASUREMENTS_FILE)
    for sentence in backend.load_notices if isinstance(backend, LoadReporter) else ():
        if sentence.once and told.read_value(_TOLD, sentence.once):
            continue
        notify(words(sentence.key, **sentence.values), "warning")
        if sentence.once:
            told.write_value(_TOLD, sentence.once, True)


def name_model(settings: Settings) -> str:
    """Return what the model of the settings is called, without anything secret."""
    return identify_model(settings).name


@dataclass(frozen=True)
class ModelOffer:
    """A model.

    Attributes:
        name: Short name to call it by.
        target: What `--model` takes: a path or a URL with the model behind `#`.
        size_bytes: Size of the file; 0 for a service.
    """

    name: str
    target: str
    size_bytes: int = 0

    @property
    def names(self) -> set[str]:
        """All names that it can be called by."""
        path = PurePath(self.target)
        return {self.name, self.target, *({path.name, path.stem} if "://" not in self.target else ())}


def find_offers(settings: Settings, used: Sequence[str] = ()) -> list[ModelOffer]:
    """Return the models of the services, then the files, then earlier models; blocks while folders and services answer.

    Args:
        settings: Current settings.
        used: Models that were in use before, as `--model` takes them.
    """
    models = list(dict.fromkeys(model for model in (settings.model, *used) if model))
    targets: list[str] = []
    services = [model for model in models if find_engine_of(replace(settings, model=model, backend="auto")).is_service]
    for model in services[:_MAX_SERVICE_LISTS]:
        targets += _list_service(replace(settings, model=model)) or [model]
    offers = [ModelOffer(_name_of(target), target) for target in dict.fromkeys(targets)]
    files = find_models(settings.models_folder, settings.model)
    offers += [
        ModelOffer(file.name, file.name if file.is_shipped else str(file.path), file.size_bytes) for file in files
    ]
    known = {*services, *(name for offer in offers for name in offer.names)}
    paths = {file.path.resolve() for file in files}
    others = [model for model in models if model not in known and resolve_model(model).resolve() not in paths]
    return offers + [ModelOffer(_name_of(model), model) for model in others]


def find_service_offers(settings: Settings, url: str) -> list[ModelOffer]:
    """Return the models of the service at a URL that names none of them; blocks while it answers."""
    if "://" not in url or "#" in url:
        return []
    return [ModelOffer(_name_of(target), target) for target in _list_service(replace(settings, model=url))]


def find_offer(name: str, offers: Iterable[ModelOffer]) -> ModelOffer | None:
    """Return the only offer with this name; None if there is none or several."""
    matches = [offer for offer in offers if name in offer.names]
    return matches[0] if len(matches) == 1 else None


def _list_service(settings: Settings) -> list[str]:
    """Return the models of services as targets; none if the settings are invalid."""
    from ..backends.openai.backend import list_service_models

    try:
        return list_service_models(settings)
    except ChatError:
        return []


def _name_of(target: str) -> str:
    """Return the short name of a target."""
    return unquote(target.partition("#")[2]) or PurePath(target).name
