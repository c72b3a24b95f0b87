"""Compiles builds of llama.cpp that die of a signal."""

from __future__ import annotations

from pathlib import Path

from rkllm_runtime.build import compile_c, find_engine, find_headers


def build_dying_llama(library: Path, name: str) -> None:
    """A libllama that raises a signal when it is loaded, as one for another processor may."""
    source = library.with_name("dies.c")
    code = f"#include <signal.h>\n__attribute__((constructor)) static void die(void) {{ raise({name}); }}\n"
    source.write_text(code, encoding="utf-8")
    compile_c("-shared", "-fPIC", "-o", str(library), str(source))


def build_faulty_llama(folder: Path, *, always: bool = False) -> Path:
    """A libllama in front of the installed one that dies of SIGILL as a build of a faulty compiler does (see faults.c).

    It is in a new folder, beside the other libraries of llama.cpp.
    `always`: it computes nothing; else it computes without extra buffers.
    """
    folder.mkdir()
    engine, library = find_engine(), folder / "libllama.so"
    for other in engine.iterdir():
        if not other.name.startswith(library.name):
            (folder / other.name).symlink_to(other)
    source = Path(__file__).with_name("faults.c")
    options = ("-I", str(find_headers()), f"-DALWAYS={int(always)}", "-fvisibility=default")
    real = ("-L", str(engine), f"-Wl,-rpath,{engine}", "-Wl,--no-as-needed", "-lllama")
    compile_c(*options, "-shared", "-fPIC", "-o", str(library), str(source), *real)
    return library
