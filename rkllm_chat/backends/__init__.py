"""BACKENDS: engines that generate text. The `Backend` protocol says what an engine must offer.

`engines.py` has the rows; further engines are plugins.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base import Backend, BaseBackend, ModelStream
    from .engines import (
        BACKENDS,
        Engine,
        ModelFacts,
        ModelIdentity,
        check_backend,
        check_model,
        choose_backend,
        find_engine,
        find_engine_of,
        identify_model,
        open_backend,
    )

__all__ = [
    "BACKENDS",
    "Backend",
    "BaseBackend",
    "Engine",
    "ModelFacts",
    "ModelIdentity",
    "ModelStream",
    "check_backend",
    "check_model",
    "choose_backend",
    "find_engine",
    "find_engine_of",
    "identify_model",
    "open_backend",
]
_MEMBERS_OF_BASE = ("Backend", "BaseBackend", "ModelStream")


def __getattr__(name: str) -> object:
    """Import a name when it is first used: the process of the NPU library starts without engines and protocol."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".base" if name in _MEMBERS_OF_BASE else ".engines", __name__), name)
