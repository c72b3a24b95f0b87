"""Use a GGUF once as the program will: load it with its projector, tokenize, generate and embed.

`trial_load` runs this as a process, whose death shows that llama.cpp would have ended the program.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path

from ...config.settings import Generation
from ...core.messages import Message
from .backend import LlamaBackend

_TRIAL_S, _TOKENIZE_S = 600, 3.0
"""A model of 8 GB is read from a slow card at 15 MB/s. Some vocabularies make llama.cpp write tokens without end, until
no memory is left; this is CPU time."""
_SAMPLE = "".join(map(chr, (*range(0x800), *range(0x800, 0xD800, 0x800), *range(0xE000, 0x110000, 0x1000))))
"""Has every byte that UTF-8 can have: a vocabulary that lacks one may end the process at a text that has it."""


def main(path: str, context_tokens: str, library: str, projector: str) -> None:
    """Use a file; what raises an exception does so in the other process, too."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(_TRIAL_S)
    os.environ["GGML_NO_BACKTRACE"] = "1"  # else llama.cpp starts gdb, which trusts the current folder
    with suppress(OSError, AttributeError):  # Linux: end with the process that waits, and first where memory runs out
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    with suppress(Exception):
        asyncio.run(_use(LlamaBackend(Path(path), int(context_tokens), library=library, mmproj=projector)))
    os._exit(0)  # nothing of the library has to be put in order


async def _use(backend: LlamaBackend) -> None:
    signal.setitimer(signal.ITIMER_VIRTUAL, _TOKENIZE_S)
    backend.tokenize(_SAMPLE)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    for stream in (backend.stream([Message("user", "a")], Generation(max_tokens=2)), backend.embed(["a"])):
        with suppress(Exception):
            async for _ in stream:
                pass


if __name__ == "__main__":
    main(*sys.argv[1:])
