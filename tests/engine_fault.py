"""Whether llama.cpp runs on this machine: asked once, in a process of its own, before a process of the tests loads it.

A build that dies of an instruction would end a worker of pytest without a word.
"""

from __future__ import annotations

import importlib.abc
import multiprocessing
import os
from collections.abc import Sequence
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

REQUIRE_ALL = "REQUIRE_ALL"
"""Set by the gate: a test that needs what is not on this machine fails instead of being skipped."""
STATE = Path(__file__).parents[1] / ".pytest_cache" / "engine"
"""What is known of builds of llama.cpp on this machine; as in a user's state folder."""
_ENGINE = "llama_cpp"


@cache
def find_engine_fault() -> str:
    """Why llama.cpp does not run here, as the program says it; "" if it runs."""
    from rkllm_chat.backends.llama.cores import choose_cores, count_threads
    from rkllm_chat.backends.llama.trial_load import try_build
    from rkllm_chat.core.errors import ModelError

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(STATE))
        patch.setattr(multiprocessing, "cpu_count", os.cpu_count)  # conftest replaces it
        try:
            for threads in sorted({1, count_threads(choose_cores())}):  # in the tests, and of a program that they start
                try_build("", threads, 0)
        except ModelError as error:
            return str(error)
    return ""


def has_extra_buffers() -> bool:
    """Whether llama.cpp runs here with extra buffers, on which a build that fails with AMX dies."""
    from rkllm_chat.backends.llama.trial_load import try_build

    return bool(find_engine_fault()) or try_build("", 1, 0).extra_buffers


def open_bare_llama(path: str, **options: Any) -> Any:
    """Return llama-cpp-python's own class for a model, with which ours is compared, without what fails here."""
    import llama_cpp

    class BareLlama(llama_cpp.Llama):  # type: ignore[misc]
        @property
        def model_params(self) -> Any:  # its constructor has no argument for it
            self._params.use_extra_bufts = has_extra_buffers()
            return self._params

        @model_params.setter
        def model_params(self, params: Any) -> None:
            self._params = params

    return BareLlama(path, verbose=False, **options)


def stop_without(fault: str) -> None:
    """Skip a test or a module for a reason, or fail it under REQUIRE_ALL; no reason stops nothing."""
    if fault and os.environ.get(REQUIRE_ALL):
        pytest.fail(fault, pytrace=False)
    elif fault:
        pytest.skip(fault, allow_module_level=True)


class EngineGate(importlib.abc.MetaPathFinder):
    """Finds nothing; stops the test or module that is about to import llama.cpp where that does not run."""

    def __init__(self) -> None:
        self._is_asking = False

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == _ENGINE and not self._is_asking:
            self._is_asking = True  # who asks looks for the package
            try:
                fault = find_engine_fault()
            finally:
                self._is_asking = False
            stop_without(fault)
        return None
