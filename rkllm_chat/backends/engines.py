"""BACKENDS: the engines, a row each: what opens a model, finds out whether it can be opened, and says which it is.

What an engine is, it says itself; nobody else asks for its name to know its file. A plugin brings a row, or only the
function that opens a model. Engines are heavy imports, so a row imports its own when it needs it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..core.plugins import find_plugin
from ..core.user_paths import expand_home
from .shared.model_files import resolve_model

if TYPE_CHECKING:
    from ..config.settings import Settings
    from .base import Backend

_HASHED_BYTES = 1024 * 1024
_SCHEMES = ("http://", "https://")
_BACKEND_OF_SUFFIX = {".rkllm": "rkllm", ".json": "scripted"}


@dataclass(frozen=True)
class ModelIdentity:
    """Which model an engine would open.

    Attributes:
        name: What it is called, without anything secret; measurements of its speed are kept by it.
        file: Its file; None if it has none.
        own_key: Differs for models that a prompt profile is remembered for; "" for the file's content or the name.
    """

    name: str
    file: Path | None = None
    own_key: str = ""

    @property
    def key(self) -> str:
        """The key, else a hash of the file's size and both ends, else the name."""
        return self.own_key or _hash_ends(self.file) or self.name


def _hash_ends(path: Path | None) -> str:
    """Return a hash of a file's size and both ends; "" if it is no regular file: a pipe may be read once."""
    if path is None or not path.is_file():
        return ""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            digest = hashlib.sha256(str(size).encode())
            for start in (0, max(0, size - _HASHED_BYTES)):
                file.seek(start)
                digest.update(file.read(_HASHED_BYTES))
    except OSError:
        return ""
    return digest.hexdigest()


class Engine:
    """A row of BACKENDS; a plugin names an instance of a class of its own."""

    def open(self, settings: Settings) -> Backend:
        """Load the model of the settings; blocks while it loads.

        Raises:
            ModelError: The model cannot be loaded.
            ConfigError: The settings are invalid.
        """
        raise NotImplementedError

    def check(self, _settings: Settings) -> Sequence[str]:
        """Find out whether the model can be opened, without keeping it, and return what `rkllm-chat doctor` shows.

        Raises:
            ChatError: It cannot; the error says why and what to try.
        """
        return ()

    def identify(self, settings: Settings) -> ModelIdentity:
        """Say which model the settings name; nothing is loaded, and no network is used."""
        name = Path(settings.model).name or settings.backend
        return ModelIdentity(name, own_key=f"{settings.backend}:{settings.model}")


class _PluginFunction(Engine):
    """The engine of a plugin that has only a function that opens a model."""

    def __init__(self, function: Callable[[Settings], Backend]) -> None:
        self._function = function

    def open(self, settings: Settings) -> Backend:
        return self._function(settings)


class _LlamaEngine(Engine):
    def open(self, settings: Settings) -> Backend:
        from .llama.backend import open_llama

        return open_llama(settings)

    def check(self, settings: Settings) -> Sequence[str]:
        from .llama.backend import check_llama

        return (str(check_llama(settings)),)

    def identify(self, settings: Settings) -> ModelIdentity:
        path = resolve_model(settings.model)
        return ModelIdentity(path.name, path)


class _RkllmEngine(Engine):
    def open(self, settings: Settings) -> Backend:
        from .rkllm.backend import open_rkllm

        return open_rkllm(settings)

    def check(self, settings: Settings) -> Sequence[str]:
        from .rkllm.backend import check_rkllm

        return [str(path) for path in check_rkllm(settings)]

    def identify(self, settings: Settings) -> ModelIdentity:
        path = expand_home(settings.model)
        return ModelIdentity(path.name, path if settings.model else None)


class _OpenaiEngine(Engine):
    def open(self, settings: Settings) -> Backend:
        from .openai.backend import open_openai

        return open_openai(settings)

    def check(self, settings: Settings) -> Sequence[str]:
        from .openai.backend import check_openai

        check_openai(settings)
        return ()

    def identify(self, settings: Settings) -> ModelIdentity:
        """Return the model of the URL, as it is named behind `#` or set, or its host."""
        try:
            url = urlsplit(next(iter(settings.model.split()), ""))
        except ValueError:
            return ModelIdentity("")  # opening it says what is wrong
        return ModelIdentity(url.fragment or settings.openai.model or url.hostname or "")


class _ScriptedEngine(Engine):
    def open(self, settings: Settings) -> Backend:
        from .scripted import open_scripted

        return open_scripted(settings)

    def identify(self, settings: Settings) -> ModelIdentity:
        return ModelIdentity(Path(settings.model).name)


BACKENDS: dict[str, Engine] = {
    "rkllm": _RkllmEngine(),
    "llama": _LlamaEngine(),
    "openai": _OpenaiEngine(),
    "scripted": _ScriptedEngine(),
}


def choose_backend(settings: Settings) -> str:
    """Return the backend of the settings, or choose it by the model's name.

    A URL is served by "openai", a file by its extension, anything else by "llama".
    """
    if settings.backend != "auto":
        return settings.backend
    if settings.model.lower().startswith(_SCHEMES):
        return "openai"
    return _BACKEND_OF_SUFFIX.get(Path(settings.model).suffix, "llama")


def find_engine(name: str) -> Engine:
    """Return the engine of a name, importing the plugin of one that is not built in.

    Raises:
        UsageError: There is no engine with that name.
        ConfigError: The plugin cannot be loaded.
    """
    if name in BACKENDS:
        return BACKENDS[name]
    found: Any = find_plugin("backends", name, ("auto", *BACKENDS))
    return found if isinstance(found, Engine) else _PluginFunction(found)


def open_backend(settings: Settings) -> Backend:
    """Load the model of the settings; blocks while it loads.

    Raises:
        UsageError: The settings name an unknown backend.
        ConfigError: The plugin of the backend cannot be loaded, or a folder's configuration names files that the user
            has not accepted.
        ModelError: The model cannot be loaded.
    """
    from .project_files import check_project_files

    check_project_files(settings)
    return find_engine(choose_backend(settings)).open(settings)


def check_model(settings: Settings) -> None:
    """Find out whether the model of the settings can be loaded, without keeping it in memory: files and settings.

    Raises:
        ModelError: The model or its library is missing or cannot be used.
        ConfigError: The settings are invalid.
    """
    find_engine(choose_backend(settings)).check(settings)


def check_backend(name: str) -> None:
    """Import the plugin of a backend that is not built in.

    Raises:
        UsageError: There is no backend with that name.
        ConfigError: The plugin cannot be loaded.
    """
    if name != "auto":
        find_engine(name)


def identify_model(settings: Settings) -> ModelIdentity:
    """Return which model the engine of the settings would open.

    Raises:
        UsageError: The settings name an unknown backend.
        ConfigError: The plugin of the backend cannot be loaded.
    """
    return find_engine(choose_backend(settings)).identify(settings)
