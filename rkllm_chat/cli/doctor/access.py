"""Check whether the user may open the device nodes of the NPU, and say which groups or rule would permit it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .board import Board, Finding, ok, warn, wrong
from .machine import CONTAINER_ADVICE, find_soc, is_container

GROUPS = ("render", "video")
"""Groups that own the device nodes in the vendors' images."""
RULE_PATH = "/etc/udev/rules.d/70-rkllm-chat.rules"
_DMA_HEAPS = "dev/dma_heap/*"


@dataclass(frozen=True)
class Node:
    """A device node.

    Attributes:
        path: Its path on this machine.
        name: Its path on the examined machine.
        is_accessible: Whether the user can read and write.
        is_for_groups: Whether its group can read and write.
    """

    path: Path
    name: str
    is_accessible: bool
    is_for_groups: bool


def check_nodes(board: Board) -> Iterator[Finding]:
    """Report whether the user may access the NPU's device nodes and the buffers that it shares with the CPU.

    Depending on how the driver was built, the NPU has a DRM card and a render node of its own, or /dev/rknpu.
    """
    if not find_soc(board):
        return
    nodes, heaps = find_nodes(board), _make_nodes(board, board.find(_DMA_HEAPS))
    if not nodes:
        yield wrong("neither /dev/dri/renderD* nor /dev/rknpu", _advise_missing(board))
        return
    for name, found, report in (("nodes", nodes, wrong), ("buffers", heaps, warn)):
        refused = [node for node in found if not node.is_accessible]
        names = ", ".join(node.name for node in refused or found)
        if refused:
            yield report(f"{names}: this user cannot read and write", _advise_access(board, refused), name)
        elif found:
            yield ok(f"{names}: this user can read and write", name)


def find_nodes(board: Board) -> list[Node]:
    """Return the NPU's device nodes; all DRM nodes if the kernel does not tell which are the NPU's."""
    found: list[Path] = []
    for pattern in ("dev/dri/card*", "dev/dri/renderD*"):
        nodes = board.find(pattern)
        found += [node for node in nodes if "DRIVER=RKNPU" in _read_uevent(board, node.name)] or nodes
    return _make_nodes(board, found + [board.root / name for name in ("dev/rknpu",) if board.has(name)])


def find_closed_nodes(board: Board) -> list[Node]:
    """Return the nodes that no group can open, such as /dev/rknpu with mode 0600."""
    every = find_nodes(board) + _make_nodes(board, board.find(_DMA_HEAPS))
    return [node for node in every if not node.is_accessible and not node.is_for_groups]


def find_missing_groups(board: Board, user: str) -> list[str]:
    """Return the groups that own such nodes, exist on the machine and do not have the user as a member."""
    lines = [line.split(":") for line in _read_groups(board).splitlines()]
    members = {line[0]: line[3].split(",") for line in lines if len(line) == 4}
    return [group for group in GROUPS if user not in members.get(group, [user] if members else [])]


def _make_nodes(board: Board, paths: list[Path]) -> list[Node]:
    nodes: list[Node] = []
    for path in paths:
        mode = path.stat().st_mode
        for_groups = bool(mode & stat.S_IRGRP and mode & stat.S_IWGRP)
        nodes.append(Node(path, board.unmap_path(path), _can_open(path), for_groups))
    return nodes


def _can_open(path: Path) -> bool:
    """Open a node as the NPU library does. A container may refuse what the mode of the node permits."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _advise_missing(board: Board) -> str:
    """Return what to do where the NPU has no device node."""
    if is_container(board):
        return CONTAINER_ADVICE
    return "The NPU has no device node. Check that the driver is loaded; a container needs /dev/dri passed in."


def _advise_access(board: Board, refused: list[Node]) -> str:
    """Return what gives the user access to nodes."""
    join = 'sudo usermod -aG render,video "$USER"'
    if any(not node.is_for_groups for node in refused):
        return f"No group may open it. rkllm-chat doctor --output fix-script writes a rule for it; then {join}"
    user = board.environment.get("USER", "")
    if user and not find_missing_groups(board, user):
        return f"{user} is in the groups render and video, but this login is older: log out and in again."
    return f"Join their groups, then log in again: {join}"


def _read_groups(board: Board) -> str:
    """Return /etc/group, or ""."""
    try:
        return board.read("etc/group")
    except OSError:
        return ""


def _read_uevent(board: Board, name: str) -> str:
    """Return the uevent file of a DRM device, or ""."""
    try:
        return board.read(f"sys/class/drm/{name}/device/uevent")
    except OSError:
        return ""
