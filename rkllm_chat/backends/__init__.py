"""BACKENDS: engines that generate text. The `Backend` protocol says what an engine must offer.

A row names the function that opens an engine, as "module:function"; further engines are plugins. A module is imported
only when its row is chosen, because engines are heavy imports. `auto` chooses by the model's name.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.plugins import find_plugin

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..config.settings import Settings
    from .base import Backend, ModelStream

__all__ = ["BACKENDS", "Backend", "ModelStream", "check_backend", "check_model", "choose_backend", "open_backend"]

BACKENDS: dict[str, str] = {
    "rkllm": "rkllm.backend:open_rkllm",
    "llama": "llama.backend:open_llama",
    "openai": "openai.backend:open_openai",
    "scripted": "scripted:open_scripted",
}
_CHECKS = {
    "rkllm": "rkllm.backend:check_rkllm",
    "llama": "llama.backend:check_llama",
    "openai": "openai.backend:check_openai",
}
"""Functions that find out whether an engine can be opened, without opening it."""
_SCHEMES = ("http://", "https://")
_BACKEND_OF_SUFFIX = {".rkllm": "rkllm", ".json": "scripted"}


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
    name = choose_backend(settings)
    open_row = _import_row(BACKENDS[name]) if name in BACKENDS else find_plugin("backends", name, ("auto", *BACKENDS))
    backend: Backend = open_row(settings)
    return backend


def check_model(settings: Settings) -> None:
    """Find out whether the model of the settings can be loaded, without keeping it in memory: files and settings.

    Raises:
        ModelError: The model or its library is missing or cannot be used.
        ConfigError: The settings are invalid.
    """
    if row := _CHECKS.get(choose_backend(settings)):
        _import_row(row)(settings)


def _import_row(row: str) -> Callable[[Settings], Any]:
    module, _, function = row.partition(":")
    imported: Callable[[Settings], Any] = getattr(import_module(f".{module}", __package__), function)
    return imported


def check_backend(name: str) -> None:
    """Import the plugin of a backend that is not built in.

    Raises:
        UsageError: There is no backend with that name.
        ConfigError: The plugin cannot be loaded.
    """
    if name not in ("auto", *BACKENDS):
        find_plugin("backends", name, ("auto", *BACKENDS))


def choose_backend(settings: Settings) -> str:
    """Return the backend of the settings, or choose it by the model's name.

    A URL is served by "openai", a file by its extension, anything else by "llama".
    """
    if settings.backend != "auto":
        return settings.backend
    if settings.model.lower().startswith(_SCHEMES):
        return "openai"
    return _BACKEND_OF_SUFFIX.get(Path(settings.model).suffix, "llama")


def __getattr__(name: str) -> object:
    """Import a name of the protocol when it is first used: the process of the NPU library starts without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".base", __name__), name)
