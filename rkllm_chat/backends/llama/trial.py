"""Use a GGUF once as the program will: load it with its projector, tokenize, generate and embed.

`trial_load` runs this as a process, whose death shows that llama.cpp would have ended the program.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...config.settings import Generation
from ...core.errors import ChatError
from ...core.messages import Message
from .backend import LlamaBackend
from .cores import choose_cores

_TRIAL_S, _TOKENIZE_S = 600, 3.0
"""A model of 8 GB is read from a slow card at 15 MB/s. Some vocabularies make llama.cpp write tokens without end, until
no memory is left; this is CPU time."""
_WORD, _PROMPT_TOKENS, _MAX_CHARACTERS = " stone", 64, 1024
"""A prompt of so many tokens is computed by other functions than one token, and those may be compiled wrongly."""
_SAMPLE = "".join(map(chr, (*range(0x800), *range(0x800, 0xD800, 0x800), *range(0xE000, 0x110000, 0x1000))))
"""Has every byte that UTF-8 can have: a vocabulary that lacks one may end the process at a text that has it."""


def main(path: str, projector: str, parameters: str, extra_buffers: str) -> None:
    """Use a file; print a document with what failed as an exception, which harms nothing."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(_TRIAL_S)
    os.environ["GGML_NO_BACKTRACE"] = "1"  # else llama.cpp starts gdb, which trusts the current folder
    with suppress(OSError, AttributeError):  # Linux: end with the process that waits, and first where memory runs out
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    outcome = asyncio.run(_use(Path(path), projector, json.loads(parameters), extra_buffers == "on"))
    sys.stdout.write(f"\n{json.dumps(outcome)}")  # libraries may have written before
    sys.stdout.flush()
    os._exit(0)  # nothing of the library has to be put in order


async def _use(path: Path, projector: str, parameters: dict[str, Any], extra_buffers: bool) -> dict[str, Any]:
    context, library = parameters.pop("context_tokens"), parameters.pop("library")
    try:
        backend = LlamaBackend(
            path,
            context,
            cores=choose_cores(),
            library=library,
            mmproj=projector,
            extra_buffers=extra_buffers,
            **parameters,
        )
    except ChatError as error:
        return {"error": [error.message, error.hint]}
    except Exception as error:  # of the library, which other builds may lack functions of
        return {"error": [f"{path}: llama.cpp cannot load it: {error}.", ""]}
    signal.setitimer(signal.ITIMER_VIRTUAL, _TOKENIZE_S)
    backend.tokenize(_SAMPLE)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    text, most = _WORD, min(backend.context_tokens, backend.header.get_number("context_length") or _MAX_CHARACTERS) // 4
    while len(backend.tokenize(text)) < min(_PROMPT_TOKENS, most) and len(text) < _MAX_CHARACTERS:
        text += text  # twice as long: half of a small context is left to the template and the reply
    problems: list[str] = []
    for stream in (backend.stream([Message("user", text)], Generation(max_tokens=2)), backend.embed([text])):
        try:
            async for _ in stream:
                pass
        except Exception as error:
            problems.append(str(error))
    return {"problem": problems[0] if len(problems) == 2 else ""}


if __name__ == "__main__":
    main(*sys.argv[1:])
