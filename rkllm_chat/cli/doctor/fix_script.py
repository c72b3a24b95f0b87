"""Write a shell script that gives the NPU full speed and the user access to it, and that can undo what it did.

The script is printed for the user to read and to run; nothing is changed here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from .access import GROUPS, RULE_PATH, find_closed_nodes, find_missing_groups
from .board import Board
from .machine import find_slow_governors, find_soc

_SCRIPT = """\
#!/bin/sh
# Written by rkllm-chat doctor for this machine. Read it, save it as fix.sh, then:
#     sudo sh fix.sh         until the next boot, every clock runs at its highest frequency;
#                            device nodes and groups stay changed
#     sudo sh fix.sh undo    restores what was found when the script was written
set -eu
case "${{1:-do}}" in
do)
{do}
    ;;
undo)
{undo}
    ;;
*)
    echo "usage: sudo sh $0 [undo]" >&2
    exit 2
    ;;
esac
"""
_NOTHING = "    echo 'Nothing to change.'"
_USER_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_RELOAD_RULES = "udevadm control --reload && udevadm trigger"


def write_fix_script(board: Board) -> str:
    """Return the script; it says so where nothing has to be changed."""
    steps = [*_set_governors(board), *_open_nodes(board), *_join_groups(board)] if find_soc(board) else []
    do = [f"    {command}" for command, _ in steps]
    undo = [f"    {command}" for _, command in reversed(steps)]
    return _SCRIPT.format(do="\n".join(do) or _NOTHING, undo="\n".join(undo) or _NOTHING)


def _set_governors(board: Board) -> list[tuple[str, str]]:
    """Return commands that select the governor `performance`, each with its undo."""
    return [
        (f"echo performance > {shlex.quote(path)}", f"echo {shlex.quote(governor)} > {shlex.quote(path)}")
        for path, governor in find_slow_governors(board)
    ]


def _open_nodes(board: Board) -> list[tuple[str, str]]:
    """Return the command that writes a udev rule for device nodes that no group can open, with its undo."""
    names = [node.path.name for node in find_closed_nodes(board)]
    if not names:
        return []
    rules = " ".join(shlex.quote(f'KERNEL=="{name}", MODE="0660", GROUP="{GROUPS[1]}"') for name in names)
    write = f"printf '%s\\n' {rules} > {RULE_PATH} && {_RELOAD_RULES}"
    return [(write, f"rm -f {RULE_PATH} && {_RELOAD_RULES}")]


def _join_groups(board: Board) -> list[tuple[str, str]]:
    """Return the commands that add the user to the groups of the device nodes, each with its undo."""
    user = board.environment.get("SUDO_USER") or board.environment.get("USER", "")
    if user == "root" or not _USER_NAME.fullmatch(user):
        return []
    groups: Sequence[str] = find_missing_groups(board, user)
    return [(f"usermod -aG {group} {user}", f"gpasswd -d {user} {group}") for group in groups]
