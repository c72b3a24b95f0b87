"""BACKENDS: engines that write text. They do not know what a tool is; `chat.py` says what a backend must be.

A row names the function that opens one, as "module:function"; a module is imported when its row is chosen, because
engines are heavy. `auto` chooses by the model's name.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from ..config import Settings
from ..errors import UsageError

if TYPE_CHECKING:
    from ..chat import Backend

BACKENDS: dict[str, str] = {
    "rkllm": "rkllm:open_rkllm",
    "llama": "llama:open_llama",
    "openai": "openai:open_openai",
    "scripted": "scripted:open_scripted",
}
SCHEMES = ("http://", "https://")
ENDINGS = {".rkllm": "rkllm", ".json": "scripted", ".jsonl": "scripted"}


def open_backend(settings: Settings) -> Backend:
    """Loads the model of the settings. Blocks while it loads; raises ModelError when that fails."""
    name = choose(settings)
    if name not in BACKENDS:
        raise UsageError(f'There is no backend "{name}".', f"Known are auto, {', '.join(BACKENDS)}.")
    module, _, function = BACKENDS[name].partition(":")
    opened: Backend = getattr(import_module(f".{module}", __package__), function)(settings)
    return opened


def choose(settings: Settings) -> str:
    """By the model's name, where the settings leave it open: a URL or the ending of a file; llama.cpp for any other."""
    if settings.backend != "auto":
        return settings.backend
    if settings.model.lower().startswith(SCHEMES):
        return "openai"
    return ENDINGS.get(Path(settings.model).suffix, "llama")
