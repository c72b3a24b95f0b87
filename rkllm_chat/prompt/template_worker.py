"""Process that renders Jinja chat templates of models, within limits of CPU time and memory.

Run as a file, for a fast start. One request per line on standard input, one response per line on standard output, both
JSON objects. A template is code from the author of the model file: it may loop for ever or build a text of many
gigabytes by a single operation, which only the kernel can stop.
"""

import sys

# the working directory and the folder of this file are no places for modules
sys.path[:] = [place for place in sys.path[1:] if place]

import json  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
from contextlib import suppress  # noqa: E402
from datetime import date  # noqa: E402
from functools import lru_cache  # noqa: E402
from typing import Any, NoReturn  # noqa: E402

from jinja2 import TemplateError  # noqa: E402
from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: E402

CPU_S = 2.0
MEMORY_MB = 256
MAX_OUTPUT_CHARS = 4_000_000


def main() -> None:
    """Answer requests until standard input ends."""
    _limit_memory()
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process, also inside a single operation
    for line in sys.stdin.buffer:
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, CPU_S)
        response = _respond(request)
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.buffer.write(response)
        sys.stdout.buffer.flush()
    os._exit(0)


def _limit_memory() -> None:
    with suppress(ImportError, ValueError, OSError):
        import resource

        # not RLIMIT_AS: it counts mapped files, such as locales of 200 MB; macOS refuses both with EINVAL
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_MB << 20, MEMORY_MB << 20))


def _respond(request: dict[str, Any]) -> bytes:
    try:
        text = _render(request)
        if len(text) > MAX_OUTPUT_CHARS:
            response = {"limit": f"its output has {len(text)} characters"}
        else:
            response = {"text": text}
    except MemoryError:
        response = {"limit": f"it needs more than {MEMORY_MB} MB"}
    except Exception as error:  # a template may also add a number to a string or index out of range
        response = {"error": str(error)[:1000] or type(error).__name__}
    return json.dumps(response).encode() + b"\n"


def _render(request: dict[str, Any]) -> str:
    """Render a template with variables, or only compile it if there are none."""
    compiled = _compile(request["source"], request["today"])
    if request["variables"] is None:
        return ""
    text: str = compiled.render(**request["variables"])
    return text


@lru_cache(maxsize=4)
def _compile(source: str, today: str) -> Any:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
    environment.globals["raise_exception"] = _raise_exception
    if today:
        environment.globals["strftime_now"] = date.fromisoformat(today).strftime
    return environment.from_string(source)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


if __name__ == "__main__":
    main()
