"""The models of the server: one is loaded, on demand, and used by one request at a time."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from ..backends import Backend, find_engine_of
from ..backends.base import BeginningKeeper, StateKeeper
from ..backends.shared.model_files import find_models, resolve_model
from ..chat.model_loading import load_model, name_model
from ..config.settings import Settings, replace_model
from ..core.hardware import read_memory
from ..core.messages import MediaKind
from ..core.thread_end import wait_for_end
from ..mcp_servers.job_queue import BusyError
from ..tui.tried_models import list_tried
from .errors import ApiError
from .request_queue import RequestQueue

_FIRST_ESTIMATE_S, _MAX_RETRY_S = 5.0, 120
_STAYS = -1.0
"""Value of `idle_s` with which a model stays loaded."""
_LISTING_S = 10.0
"""How long the folders of models are not read again."""
_MEMORY_FACTOR = 2
"""Memory that a model takes with its contexts, over the size of its file."""
_SUFFIXES = (".gguf", ".rkllm")
_LATEST = ":latest"


class ModelHost:
    """The loaded backend with a bounded queue of requests.

    Attributes:
        settings: Settings of the model that was used last; first those of the configured one.
    """

    def __init__(
        self, settings: Settings, state: Path, queue: RequestQueue, idle_s: float = 0.0, states_bytes: int = 0
    ) -> None:
        """Create a host; nothing is loaded yet.

        Args:
            settings: Settings of the configured model.
            state: Folder of the program's state.
            queue: Lets one request run at a time; may be shared with another host.
            idle_s: Seconds without a request after which the model is unloaded; 0 keeps it.
            states_bytes: Memory for the states of conversations that alternate.
        """
        self.settings = self._configured = settings
        self._models: Mapping[str, Settings] = {}
        self._listed_until = 0.0
        self._state = state
        self._queue = queue
        self._loading: asyncio.Future[Backend] | None = None
        self._mean_s = _FIRST_ESTIMATE_S
        self._idle_s, self._states_bytes = idle_s or _STAYS, states_bytes
        self._idle_timer: asyncio.TimerHandle | None = None
        self._unloading: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """Name of the model that was used last, for clients."""
        return name_model(self.settings)

    @property
    def unloads_in_s(self) -> float | None:
        """Seconds until the model is unloaded; None if it is in use or stays."""
        timer = self._idle_timer
        return max(0.0, timer.when() - asyncio.get_running_loop().time()) if timer else None

    def list_models(self) -> Mapping[str, Settings]:
        """Return the settings of the models that can be loaded, by name; blocks while folders are read.

        The configured model comes first. Models in the current folder are left out: it may belong to somebody else.
        """
        if time.monotonic() >= self._listed_until:
            own = self._configured
            models = {name_model(own): own}
            if find_engine_of(own).has_model_files:
                for file in find_models(own.models_folder, str(resolve_model(own.model).absolute())):
                    if file.path.is_absolute():
                        models.setdefault(file.path.name, replace_model(own, str(file.path)))
            self._models, self._listed_until = models, time.monotonic() + _LISTING_S
        return self._models

    def forget_listing(self) -> None:
        """Read the folders of models again when models are listed the next time."""
        self._listed_until = 0.0

    def find_model(self, name: str) -> Settings | None:
        """Return the settings of the model that clients call by a name; blocks while folders are read."""
        files = {row["name"]: row["source"].partition(":")[2] for row in list_tried()}
        wanted = simplify_name(files.get(name.lower()) or name)
        if wanted == simplify_name(self.name):
            return self.settings
        return next((found for known, found in self.list_models().items() if simplify_name(known) == wanted), None)

    @property
    def _loaded(self) -> Backend | None:
        """The backend; None while it is not loaded."""
        loading = self._loading
        return loading.result() if loading and loading.done() and not loading.exception() else None

    @property
    def is_loaded(self) -> bool:
        """Whether the model is in memory."""
        return self._loaded is not None

    def can_hold_beside(self, settings: Settings) -> bool:
        """Whether the model is loaded here, or fits into what other programs and models leave of the memory."""
        engine = find_engine_of(settings)
        if not engine.can_hold_several:
            return False
        file, memory = engine.identify(settings).file, read_memory()
        size = file.stat().st_size if file and file.is_file() else 0
        is_small = memory is not None and size * _MEMORY_FACTOR < memory.available
        return is_small or (self.is_loaded and settings == self.settings)

    @property
    def has_failed(self) -> bool:
        """Whether the model could not be loaded the last time."""
        return self._loading is not None and self._loading.done() and not self.is_loaded

    @property
    def queue_size(self) -> int:
        """The number of requests that run or wait."""
        return self._queue.size

    @property
    def context_tokens(self) -> int:
        """Size of the context window; 0 while the model is not loaded and the settings do not say it."""
        return (self._loaded or self.settings).context_tokens

    @property
    def media_kinds(self) -> frozenset[MediaKind]:
        """The kinds of media that the model understands; none while it is not loaded."""
        return self._loaded.media_kinds if self._loaded else frozenset()

    @asynccontextmanager
    async def acquire(
        self, settings: Settings | None = None, idle_s: float | None = None, beginning: Sequence[object] = ()
    ) -> AsyncIterator[Backend]:
        """Wait for the requests before this one, and provide the loaded backend exclusively.

        Args:
            settings: Settings of the model; None for the one that was used last.
            idle_s: Seconds after which the model is unloaded unless another request comes; if negative, it stays; None
                for those of the server.
            beginning: What a prompt begins with, such as its system text: those with the same one follow each other.

        Raises:
            ApiError: The queue is full.
            ModelError: The model cannot be loaded; the next request tries again.
        """
        try:
            async with self._queue.wait_turn([(settings or self.settings).model, *beginning]):
                started_at = time.monotonic()
                self._stop_timer()
                try:
                    if settings and settings != self.settings:
                        await self._switch_to(settings)
                    yield await self._load()
                finally:
                    self._mean_s += (time.monotonic() - started_at - self._mean_s) / 4
                    self._start_timer(self._idle_s if idle_s is None else idle_s)
        except BusyError:
            wait_s = min(_MAX_RETRY_S, math.ceil(self._mean_s * self._queue.size))
            message = f"{self._queue.size} requests are before this one. Try again in {wait_s} s."
            raise ApiError(429, message, "rate_limit_error", code="queue_full", retry_after_s=wait_s) from None

    async def _switch_to(self, settings: Settings) -> None:
        """Unload the model for another one; one that is still loading cannot be interrupted."""
        if self._loading:
            # not `await self._loading`: whether that load fails is no matter of this request
            await asyncio.wait([self._loading])
            await self._close_backend()
        self.settings, self._loading = settings, None

    async def _load(self) -> Backend:
        """Return the backend; loading continues if the request is cancelled."""
        if self._loading is None or self.has_failed:
            self._loading = load_model(self.settings, self._state)
            self._loading.add_done_callback(self._set_up)
        # native code that loads cannot be interrupted; what it loads for a client that leaves is there for the next one
        return await asyncio.shield(self._loading)

    def _set_up(self, loading: asyncio.Future[Backend]) -> None:
        """Set up a loaded backend; after a model that cannot be loaded, the configured one is the next."""
        backend = None if loading.cancelled() or loading.exception() else loading.result()
        if not backend and loading is self._loading and self.settings is not self._configured:
            self.settings, self._loading = self._configured, None
        if isinstance(backend, StateKeeper):
            backend.keep_states(self._states_bytes)
        if isinstance(backend, BeginningKeeper) and self._states_bytes:
            backend.keep_beginnings()
        if not self._queue.size:
            # the client that it was loaded for has left
            self._start_timer(self._idle_s)

    def _stop_timer(self) -> None:
        if self._idle_timer:
            self._idle_timer.cancel()
        self._idle_timer = None

    def _start_timer(self, idle_s: float) -> None:
        """Unload the model after `idle_s`, unless another request comes first."""

        def unload() -> None:
            self._unloading = loop.create_task(self._unload())

        # Not while it loads: a timer that ended then forgot the load, whose engine stayed in memory beside that of the
        # next request. `_set_up` starts it.
        if idle_s >= 0 and self.is_loaded:
            loop = asyncio.get_running_loop()
            self._idle_timer = loop.call_later(idle_s, unload)

    async def _unload(self) -> None:
        """Close the backend, unless requests wait for it."""
        if not self._queue.size:
            async with self._queue.wait_turn():
                await self._close_backend()

    async def _close_backend(self) -> None:
        """Unload the model, if it is loaded. Once begun, this ends before a cancellation is raised."""
        if backend := self._loaded:
            # before it is closed: a backend whose close has failed is not used again
            self._loading = None
            closing = asyncio.ensure_future(backend.aclose())
            await wait_for_end(closing)
            closing.result()

    async def aclose(self) -> None:
        """Close the backend; no request may be running."""
        self._stop_timer()
        await self._close_backend()


def simplify_name(name: str) -> str:
    """Return what the names of a model that clients use have in common."""
    name = name.removesuffix(_LATEST)
    return next((name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix)), name)
