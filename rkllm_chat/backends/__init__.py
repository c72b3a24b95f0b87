"""BACKENDS: engines that generate text. The `Backend` protocol says what an engine must offer.

A row names the function that opens an engine, as "module:function". The module is imported only when its row is
chosen, because engines are heavy imports. `auto` chooses by the model's name.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from ..config.settings import Settings
from ..core.errors import UsageError
from .base import Backend, ModelStream

__all__ = ["BACKENDS", "Backend", "ModelStream", "choose_backend", "open_backend"]

BACKENDS: dict[str, str] = {
    "rkllm": "rkllm.backend:open_rkllm",
    "llama": "llama.backend:open_llama",
    "openai": "openai.backend:open_openai",
    "scripted": "scripted:open_scripted",
}
_SCHEMES = ("http://", "https://")
_BACKEND_OF_SUFFIX = {".rkllm": "rkllm", ".json": "scripted", ".jsonl": "scripted"}


def open_backend(settings: Settings) -> Backend:
    """Load the model of the settings; blocks while it loads.

    Raises:
        UsageError: The settings name an unknown backend.
        ModelError: The model cannot be loaded.
    """
    name = choose_backend(settings)
    if name not in BACKENDS:
        raise UsageError(f'There is no backend "{name}".', f"Known backends: auto, {', '.join(BACKENDS)}.")
    module, _, function = BACKENDS[name].partition(":")
    backend: Backend = getattr(import_module(f".{module}", __package__), function)(settings)
    return backend


def choose_backend(settings: Settings) -> str:
    """Return the backend of the settings, or choose it by the model's name.

    A URL is served by "openai", a file by its extension, anything else by "llama".
    """
    if settings.backend != "auto":
        return settings.backend
    if settings.model.lower().startswith(_SCHEMES):
        return "openai"
    return _BACKEND_OF_SUFFIX.get(Path(settings.model).suffix, "llama")
