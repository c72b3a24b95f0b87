"""The filter of system calls for each architecture, run by an interpreter of BPF: most machines have only one of them.

`test_sandbox_escape.py` tries the filter of this machine in the kernel.
"""

from __future__ import annotations

import errno
import struct

import pytest

from rkllm_chat.mcp_client.process.system_calls import build_filter

ALLOW, FAIL = 0x7FFF0000, 0x00050000
NEW_USER, NEW_MOUNTS, FORK, THREAD = 0x10000000, 0x00020000, 0x01200011, 0x003D0F00
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# System call -> its numbers on x86_64 and aarch64, as syscalls(2) and the headers of Linux 6.1 have them.
NUMBERS = {
    "read": (0, 63),
    "execve": (59, 221),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "perf_event_open": (298, 241),
    "setns": (308, 268),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "clone": (56, 220),
    "clone3": (435, 435),
    "unshare": (272, 97),
    "socket": (41, 198),
    "socketpair": (53, 199),
}
# System call and its first argument -> the error number, 0 if it is allowed.
OUTCOMES: dict[tuple[str, int], int] = {
    **{(name, 0): 0 for name in ("read", "execve")},
    **{(name, 0): errno.EPERM for name in ("add_key", "request_key", "keyctl", "perf_event_open", "setns", "bpf")},
    **{(name, 0): errno.EPERM for name in ("userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register")},
    ("clone3", 0): errno.ENOSYS,
    ("clone", FORK): 0,
    ("clone", THREAD): 0,
    ("clone", NEW_USER | FORK): errno.EPERM,
    ("unshare", NEW_MOUNTS): 0,
    ("unshare", NEW_USER | NEW_MOUNTS): errno.EPERM,
    **{(name, family): 0 for name in ("socket", "socketpair") for family in (1, 2, 10, 16)},
    **{(name, family): errno.EAFNOSUPPORT for name in ("socket", "socketpair") for family in (0, 3, 17, 31, 38, 40)},
}


def run_filter(program: bytes, number: int, architecture: int, argument: int = 0) -> int:
    """Return what a BPF program decides about a system call."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, argument, 0, 0, 0, 0, 0)
    place = value = 0
    while True:
        code, if_true, if_false, operand = struct.unpack_from("=HBBI", program, place * 8)
        place += 1
        match code:
            case 0x20:  # load a word
                (value,) = struct.unpack_from("=I", data, operand)
            case 0x15:  # jump if equal
                place += if_true if value == operand else if_false
            case 0x35:  # jump if greater or equal
                place += if_true if value >= operand else if_false
            case 0x45:  # jump if any bit is set
                place += if_true if value & operand else if_false
            case 0x06:  # return
                return int(operand)
            case _:
                raise AssertionError(f"instruction {code:#x}")


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_a_system_call_is_allowed_or_fails_as_listed(machine: str) -> None:
    program, architecture = build_filter(machine), ARCHITECTURES[machine]
    place = list(ARCHITECTURES).index(machine)
    decided = {
        (name, argument): run_filter(program, NUMBERS[name][place], architecture, argument)
        for name, argument in OUTCOMES
    }
    assert decided == {call: FAIL | number if number else ALLOW for call, number in OUTCOMES.items()}


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_no_call_of_another_architecture_or_abi_is_allowed(machine: str) -> None:
    program = build_filter(machine)
    for architecture in (
        0x40000003,
        0x40000028,
        *(ARCHITECTURES[other] for other in ARCHITECTURES if other != machine),
    ):
        assert run_filter(program, NUMBERS["read"][0], architecture) == FAIL | errno.ENOSYS
    x32 = 0x40000000
    assert run_filter(program, x32 + 512, ARCHITECTURES[machine]) == FAIL | errno.ENOSYS
    assert run_filter(program, 0xFFFFFFFF, ARCHITECTURES[machine]) == FAIL | errno.ENOSYS


def test_an_unknown_architecture_has_no_filter() -> None:
    assert build_filter("riscv64") == b""
