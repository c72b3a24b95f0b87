"""Build the seccomp filter that a sandboxed server runs under: a classic BPF program (seccomp(2), `linux/filter.h`).

Denied is what reaches the kernel or other programs past the namespaces of a sandbox: the keyrings of the user's
session, sockets of the host machine (vsock) and of protocols that servers do not need, io_uring (whose operations no
filter sees), BPF, performance counters, userfaultfd and further namespaces. Programs get an error and go on: glibc
falls back from clone3, whose flags a filter cannot read, to clone.

Numbers are those of `asm/unistd_64.h` and `asm-generic/unistd.h`. For other architectures there is no filter, and a
server only gets a keyring of its own instead of the session's.
"""

from __future__ import annotations

import errno
import os
import struct
import sys

_CLONE_NEWUSER = 0x1000_0000
_X32_BIT = 0x4000_0000
_FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6, AF_NETLINK."""
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
"""Offsets in `struct seccomp_data`; of an argument, the lower half on a little-endian machine."""
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
"""Instructions: BPF_LD|BPF_W|BPF_ABS, and BPF_JMP with BPF_JEQ, BPF_JGE, BPF_JSET; BPF_RET."""
_ALLOW, _FAIL = 0x7FFF_0000, 0x0005_0000


class _Numbers:
    """System call numbers of an architecture.

    Attributes:
        architecture: The value of AUDIT_ARCH_*.
        denied: add_key, request_key, keyctl, perf_event_open, setns, bpf, userfaultfd, io_uring_*.
        with_flags: unshare, clone: calls whose first argument has CLONE_* flags.
        with_family: socket, socketpair.
        clone3: clone3.
    """

    def __init__(self, architecture: int, denied: tuple[int, ...], others: tuple[int, int, int, int]) -> None:
        self.architecture, self.denied = architecture, (*denied, 425, 426, 427)
        self.with_flags, self.with_family, self.clone3 = others[:2], others[2:], 435


_ARCHITECTURES = {
    "x86_64": _Numbers(0xC000_003E, (248, 249, 250, 298, 308, 321, 323), (272, 56, 41, 53)),
    "aarch64": _Numbers(0xC000_00B7, (217, 218, 219, 241, 268, 280, 282), (97, 220, 198, 199)),
}


_JOIN_SESSION_KEYRING = 1
_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "loongarch64": 219, "armv7l": 311, "armv8l": 311, "i686": 288}


def _find_machine() -> str:
    """Return the architecture of this process, as uname(2) names it; 32-bit programs run on 64-bit kernels too."""
    machine = os.uname().machine
    return machine if sys.maxsize > 2**32 else {"x86_64": "i686", "aarch64": "armv8l"}.get(machine, machine)


def build_filter(machine: str = "") -> bytes:
    """Return the filter for an architecture by its name of uname(2), by default ours; `b""` if there is none for it."""
    numbers = _ARCHITECTURES.get(machine or _find_machine())
    if numbers is None:
        return b""
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, numbers.architecture),
        _fail(errno.ENOSYS),
        (_LOAD, 0, 0, _NUMBER),
        # calls of the x32 ABI, which has the architecture of x86_64; other machines have no such numbers
        (_AT_LEAST, 0, 1, _X32_BIT),
        _fail(errno.ENOSYS),
        *_deny(numbers.denied, errno.EPERM),
        *_deny((numbers.clone3,), errno.ENOSYS),
    ]
    for number in numbers.with_flags:
        check = [(_LOAD, 0, 0, _FIRST_ARGUMENT), (_ANY_BIT, 0, 1, _CLONE_NEWUSER), _fail(errno.EPERM)]
        program += _check(number, check)
    for number in numbers.with_family:
        allowed = [(_EQUAL, len(_FAMILIES) - place, 0, family) for place, family in enumerate(_FAMILIES)]
        program += _check(number, [(_LOAD, 0, 0, _FIRST_ARGUMENT), *allowed, _fail(errno.EAFNOSUPPORT)])
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in [*program, (_RETURN, 0, 0, _ALLOW)])


def _fail(number: int) -> tuple[int, int, int, int]:
    """Return the instruction that makes the system call fail with an error number."""
    return (_RETURN, 0, 0, _FAIL | number)


def _deny(numbers: tuple[int, ...], error: int) -> list[tuple[int, int, int, int]]:
    """Return the instructions that make system calls fail."""
    return [instruction for number in numbers for instruction in ((_EQUAL, 0, 1, number), _fail(error))]


def _check(number: int, instructions: list[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Return instructions that run for one system call, which is allowed where they do not return."""
    return [(_EQUAL, 0, len(instructions) + 1, number), *instructions, (_RETURN, 0, 0, _ALLOW)]


def join_new_keyring() -> None:
    """Give this thread a new, empty session keyring, which the processes that it starts inherit (keyctl(2))."""
    import ctypes

    if number := _KEYCTL.get(_find_machine()):
        ctypes.CDLL(None).syscall(number, _JOIN_SESSION_KEYRING, None)
