"""The processor, as the kernel describes it, and the instruction sets that a build of llama.cpp wants of it."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

_IDENTITY = re.compile(
    r"(?:vendor_id|cpu family|model|model name|stepping|flags|Features|CPU \w+|isa|uarch)\s*:.*", re.ASCII
)
"""Lines of /proc/cpuinfo that differ between processors and not between two looks at the same one."""
_SETS = {
    "pni": "SSE3",
    "ssse3": "SSSE3",
    "avx": "AVX",
    "avx_vnni": "AVX_VNNI",
    "avx2": "AVX2",
    "f16c": "F16C",
    "fma": "FMA",
    "bmi2": "BMI2",
    "avx512f": "AVX512",
    "avx512vbmi": "AVX512_VBMI",
    "avx512_vnni": "AVX512_VNNI",
    "avx512_bf16": "AVX512_BF16",
    "amx_int8": "AMX_INT8",
    "asimd": "NEON",
    "asimdhp": "FP16_VA",
    "asimddp": "DOTPROD",
    "i8mm": "MATMUL_INT8",
    "sve": "SVE",
    "sme": "SME",
}
"""Feature in /proc/cpuinfo -> instruction set as llama.cpp names it (ggml-cpu.cpp, ggml_backend_cpu_get_features)."""
_FAST_SETS = frozenset({"DOTPROD", "FP16_VA", "MATMUL_INT8", "AVX2", "AVX512"})
"""Those that make models of 4 and 8 bits clearly faster."""
AMX = "AMX_INT8"
"""Matrix instructions of Intel's servers from 2023 on; GCC 12.2 compiles llama.cpp's use of them wrongly.

It deletes the stores that `_tile_loadconfig` reads, because it does not know that this reads memory.
"""
REBUILD = "pip install --force-reinstall --no-cache-dir --no-deps llama-cpp-python"
REBUILD_WITHOUT_AMX = f"CFLAGS=-mno-amx-int8 CXXFLAGS=-mno-amx-int8 {REBUILD}"
"""Without AMX_INT8 llama.cpp compiles no AMX, and keeps AVX-512. Qwen2.5-Coder 0.5B Q4_K_M, one thread of an EPYC with
AVX-512 and without AMX, tokens per second of CPU time in prefill and decode (n = 6, 6 and 3, interleaved): so built 167
and 46, the same without extra buffers 174 and 45, with -DGGML_NATIVE=OFF 109 and 42."""
REBUILD_PORTABLE = f"CMAKE_ARGS=-DGGML_NATIVE=OFF {REBUILD}"


def describe_processor(root: Path = Path("/")) -> str:
    """Return what identifies the kind of processor: architecture, model and features of its first core."""
    lines = [os.uname().machine] if root == Path("/") else []
    with suppress(OSError), (root / "proc/cpuinfo").open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if not line.strip():
                break  # the others are alike, and with a hundred cores the file is long
            if _IDENTITY.match(line):
                lines.append(line.strip())
    return "\n".join(lines)


def find_present_sets(processor: str) -> list[str]:
    """Return the instruction sets of a processor, from `describe_processor`; empty if it does not tell."""
    line = re.search(r"^(?:Features|flags)\s*:(.*)", processor, re.MULTILINE)
    features = line[1].split() if line else []
    return [name for feature, name in _SETS.items() if feature in features]


def find_unused_sets(used: frozenset[str], present: list[str]) -> list[str]:
    """Return the instruction sets of the processor that would make a build clearly faster and that it does not use."""
    return [name for name in present if name in _FAST_SETS and name not in used]


def explain_illegal_instruction(used: frozenset[str], present: list[str]) -> tuple[str, str]:
    """Return why a build was ended by SIGILL, as the end of a sentence, "" if that is unknown, and what to try.

    Args:
        used: Instruction sets of the build, from `read_instruction_sets`.
        present: Instruction sets of the processor, from `find_present_sets`.
    """
    if lacking := [name for name in _SETS.values() if present and name in used and name not in present]:
        return f"it was built with {', '.join(lacking)}, which this processor lacks", f"Build it here: {REBUILD}"
    if AMX in used:
        return f"it was built with {AMX}, which fails here", f"Build it without: {REBUILD_WITHOUT_AMX}"
    sets = ", ".join(name for name in _SETS.values() if name in used)
    cause = f"it was built with {sets}, of which one fails here" if sets else ""
    return cause, f"llama.cpp was built with instructions that do not work here. Build it without: {REBUILD_PORTABLE}"
