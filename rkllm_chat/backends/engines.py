"""BACKENDS: the engines, a row each: what opens a model, finds out whether it can be opened, and says which it is.

What an engine is, it says itself; nobody else asks for its name to know its file. A plugin brings a row, or only the
function that opens a model. Engines are heavy imports, so a row imports its own when it needs it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
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


@dataclass(frozen=True)
class ModelFacts:
    """What an engine knows of a model before it is loaded.

    Attributes:
        name: The name that its maker gave it.
        architecture: Its architecture, as the engine calls it.
        template: Its chat template.
        parameters: Number of its parameters; 0 if unknown.
        context_tokens: Size of the context window that it is opened with; 0 if unknown.
    """

    name: str = ""
    architecture: str = ""
    template: str = ""
    parameters: int = 0
    context_tokens: int = 0


class Engine:
    """A row of BACKENDS; a plugin names an instance of a class of its own.

    Attributes:
        is_service: The model runs elsewhere: what is asked leaves this machine, and may cost money.
        has_model_files: Any of the files that `find_models` finds can be opened in place of the configured model.
        can_hold_several: A second model can be loaded beside the first where the memory allows it.
    """

    is_service = False
    has_model_files = False
    can_hold_several = False

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

    def describe(self, settings: Settings) -> str:
        """Return the engine's name and release, beside which its speed is shown; "" if its speed is not measured."""
        return settings.backend

    def read_facts(self, _settings: Settings) -> ModelFacts:
        """Return what is known of the model without loading it; blocks while its file is read.

        Raises:
            ModelError: The file cannot be read.
        """
        return ModelFacts()


class _PluginFunction(Engine):
    """The engine of a plugin that has only a function that opens a model."""

    def __init__(self, function: Callable[[Settings], Backend]) -> None:
        self._function = function

    def open(self, settings: Settings) -> Backend:
        return self._function(settings)


class _LlamaEngine(Engine):
    has_model_files = True
    can_hold_several = True

    def open(self, settings: Settings) -> Backend:
        from .llama.backend import open_llama

        return open_llama(settings)

    def check(self, settings: Settings) -> Sequence[str]:
        from .llama.backend import check_llama

        return (str(check_llama(settings)),)

    def identify(self, settings: Settings) -> ModelIdentity:
        path = resolve_model(settings.model)
        return ModelIdentity(path.name, path)

    def describe(self, settings: Settings) -> str:
        from .llama.cores import choose_cores, describe_cores

        name = f"llama.cpp of llama-cpp-python {version('llama-cpp-python')}"
        if settings.llama_library:
            name += " with another libllama"  # without its path, which often names the user
        cores = choose_cores()
        return f"{name}, {describe_cores(cores)}" if cores else name

    def read_facts(self, settings: Settings) -> ModelFacts:
        from .llama.engine import TEMPLATE_KEY, choose_context
        from .llama.gguf_header import read_gguf_header

        header = read_gguf_header(resolve_model(settings.model))
        return ModelFacts(
            header.get_text("general.name"),
            header.get_text("general.architecture"),
            header.get_text(TEMPLATE_KEY),
            sum(math.prod(shape) for shape in header.tensors.values()),
            choose_context(header),
        )


class _RkllmEngine(Engine):
    has_model_files = True

    def open(self, settings: Settings) -> Backend:
        from .rkllm.backend import open_rkllm

        return open_rkllm(settings)

    def check(self, settings: Settings) -> Sequence[str]:
        from .rkllm.backend import check_rkllm

        return [str(path) for path in check_rkllm(settings)]

    def identify(self, settings: Settings) -> ModelIdentity:
        path = expand_home(settings.model)
        return ModelIdentity(path.name, path if settings.model else None)

    def describe(self, settings: Settings) -> str:
        from .rkllm.abi import find_library, read_release
        from .rkllm.model_file import read_toolkit_release

        library, toolkit = find_library(settings.rkllm.library), ""
        with suppress(OSError):  # loading the model says what is wrong with its file
            toolkit = read_toolkit_release(resolve_model(settings.model))
        name = f"RKLLM {read_release(library) if library else ''}".strip()
        return f"{name}, model of toolkit {toolkit}" if toolkit else name

    def read_facts(self, _settings: Settings) -> ModelFacts:
        from .rkllm.backend import CONTEXT_TOKENS

        return ModelFacts(context_tokens=CONTEXT_TOKENS)


class _OpenaiEngine(Engine):
    is_service = True

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

    def describe(self, _settings: Settings) -> str:
        return ""


class _ScriptedEngine(Engine):
    def open(self, settings: Settings) -> Backend:
        from .scripted import open_scripted

        return open_scripted(settings)

    def identify(self, settings: Settings) -> ModelIdentity:
        return ModelIdentity(Path(settings.model).name)

    def describe(self, _settings: Settings) -> str:
        return ""


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
    return find_engine_of(settings).open(settings)


def check_model(settings: Settings) -> None:
    """Find out whether the model of the settings can be loaded, without keeping it in memory: files and settings.

    Raises:
        ModelError: The model or its library is missing or cannot be used.
        ConfigError: The settings are invalid.
    """
    find_engine_of(settings).check(settings)


def check_backend(name: str) -> None:
    """Import the plugin of a backend that is not built in.

    Raises:
        UsageError: There is no backend with that name.
        ConfigError: The plugin cannot be loaded.
    """
    if name != "auto":
        find_engine(name)


def find_engine_of(settings: Settings) -> Engine:
    """Return the engine that the settings name or imply; errors are those of `find_engine`."""
    return find_engine(choose_backend(settings))


def identify_model(settings: Settings) -> ModelIdentity:
    """Return which model the engine of the settings would open.

    Raises:
        UsageError: The settings name an unknown backend.
        ConfigError: The plugin of the backend cannot be loaded.
    """
    return find_engine_of(settings).identify(settings)
