"""Process that renders Jinja chat templates of models, within limits of CPU time, memory and system calls.

Run as a file, for a fast start. One request per line on standard input, one response per line on standard output, both
JSON objects. A template is code from the author of the model file: it may loop for ever or build a text of many
gigabytes by a single operation, which only the kernel can stop. It may also get out of Jinja's sandbox, so on Linux
the kernel refuses every system call that opens a file, a connection or a process (seccomp(2)).
"""

import sys

# the working directory and the folder of this file are no places for modules
sys.path[:] = [place for place in sys.path[1:] if place]

import json  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
import signal  # noqa: E402
import struct  # noqa: E402
from contextlib import suppress  # noqa: E402
from datetime import date  # noqa: E402
from functools import lru_cache  # noqa: E402
from typing import Any, NoReturn  # noqa: E402

from jinja2 import TemplateError  # noqa: E402
from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: E402

_GENERATION = re.compile(r"(\{%[+-]?\s*)(end)?generation\b")
CPU_S = 2.0
MEMORY_MB = 256
MAX_OUTPUT_CHARS = 4_000_000
# read, write, mmap, mprotect, munmap, brk, rt_sigreturn, mremap, madvise, setitimer, futex, exit, exit_group,
# clock_gettime, getrandom
_CALLS = {  # by machine: AUDIT_ARCH_*, and the numbers of `asm/unistd_64.h` and `asm-generic/unistd.h`
    "x86_64": (0xC000_003E, (0, 1, 9, 10, 11, 12, 15, 25, 28, 38, 202, 60, 231, 228, 318)),
    "aarch64": (0xC000_00B7, (63, 64, 222, 226, 215, 214, 139, 216, 233, 103, 98, 93, 94, 113, 278)),
}
_LOAD, _IS_EQUAL, _RETURN, _ALLOW, _REFUSE = 0x20, 0x15, 0x06, 0x7FFF_0000, 0x0005_0001  # the last: EPERM
_NO_NEW_PRIVILEGES, _SET_SECCOMP = 38, 22  # of prctl(2)


def main() -> None:
    """Answer requests until standard input ends."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        # not RLIMIT_AS: it counts mapped files, such as locales of 200 MB; macOS refuses both with EINVAL
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_MB << 20, MEMORY_MB << 20))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process, also inside a single operation
    confine()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, CPU_S)
        response = _respond(request)
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.buffer.write(response)
        sys.stdout.buffer.flush()
    os._exit(0)


def confine() -> None:
    """Give up the environment and, where the kernel can filter, all system calls but those of _CALLS."""
    with suppress(TemplateError):  # modules that are imported when they are needed
        _compile("{{ [strftime_now('%B')] | pprint }}{{ raise_exception('') }}", "2000-01-01").render()
    os.environ.clear()
    architecture, calls = _CALLS.get(os.uname().machine, (0, ()))
    if sys.platform != "linux" or sys.maxsize < 2**32 or not calls:
        return
    import ctypes

    refuse, allow = (_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW)
    checks = [(_IS_EQUAL, len(calls) - place, 0, number) for place, number in enumerate(calls)]
    program = [(_LOAD, 0, 0, 4), (_IS_EQUAL, 1, 0, architecture), refuse, (_LOAD, 0, 0, 0), *checks, refuse, allow]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *instruction) for instruction in program))
    described = ctypes.create_string_buffer(struct.pack("HP", len(program), ctypes.addressof(code)))
    for arguments in ((_NO_NEW_PRIVILEGES, 1, 0, 0, 0), (_SET_SECCOMP, 2, ctypes.addressof(described))):
        ctypes.CDLL(None).prctl(*map(ctypes.c_ulong, arguments))


def _respond(request: dict[str, Any]) -> bytes:
    try:
        text = _render(request)
        is_long = len(text) > MAX_OUTPUT_CHARS
        response = {"limit": f"its output has {len(text)} characters"} if is_long else {"text": text}
    except MemoryError:
        response = {"limit": f"it needs more than {MEMORY_MB} MB"}
    except Exception as error:  # a template may also add a number to a string or index out of range
        response = {"error": str(error)[:1000] or type(error).__name__}
    return json.dumps(response).encode() + b"\n"


def _render(request: dict[str, Any]) -> str:
    """Render a template with variables, or only compile it if there are none."""
    compiled = _compile(request["source"], request["today"])
    return "" if request["variables"] is None else str(compiled.render(**request["variables"]))


@lru_cache(maxsize=4)
def _compile(source: str, today: str) -> Any:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, **{"ensure_ascii": False, **options})
    environment.globals["raise_exception"] = _raise_exception
    if today:
        environment.globals["strftime_now"] = date.fromisoformat(today).strftime
    # transformers' {% generation %} marks the text that a model is trained on; it renders nothing itself
    source = _GENERATION.sub(lambda tag: f"{tag[1]}{'endif' if tag[2] else 'if true'}", source)
    return environment.from_string(source)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


if __name__ == "__main__":
    main()
