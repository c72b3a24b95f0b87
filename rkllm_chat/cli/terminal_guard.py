"""Restore the terminal when the chat ends without having done so: killed, or ended by a library in native code.

A shell outside the program's session waits on a pipe that only the program holds open. Where the pipe ends without a
word, it sets the modes from before, and says that the chat has ended.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress

_SCRIPT = r"""
trap '' HUP INT QUIT TERM
message=
while IFS= read -r line; do
    [ -z "$line" ] && exit
    message=$line
done
stty "$1" <&1
printf '\033[?2004l\033[?1l\033[?25h\033[0m\r\n%s\r\n' "$message"
"""
_END_S = 2.0


class TerminalGuard:
    """The shell that waits for the end of this program."""

    def __init__(self, terminal: int) -> None:
        """Start it with the modes that a terminal has now; without a shell or stty there is no guard.

        Args:
            terminal: A descriptor of the terminal.
        """
        self._process: subprocess.Popen[bytes] | None = None
        environment = {"PATH": os.environ.get("PATH", os.defpath)}
        with suppress(OSError, subprocess.SubprocessError):
            modes = subprocess.run(
                ["stty", "-g"], stdin=terminal, capture_output=True, env=environment, timeout=_END_S, check=True
            ).stdout
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "guard", os.fsdecode(modes.strip())],
                stdin=subprocess.PIPE,
                stdout=terminal,  # not by its name, which may be that of another terminal by then
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,  # it survives what ends the program's group, and may set a terminal of others
            )

    def set_message(self, text: str) -> None:
        """Set what is said where the chat ends without a word."""
        self._write(f"{text}\n")

    def end(self) -> None:
        """End the guard: the program restores the terminal itself."""
        self._write("\n")
        if self._process:
            with suppress(OSError, subprocess.TimeoutExpired):
                if self._process.stdin:
                    self._process.stdin.close()
                self._process.wait(_END_S)

    def _write(self, text: str) -> None:
        if self._process and self._process.stdin:
            with suppress(OSError):  # it has been killed
                self._process.stdin.write(text.encode())
                self._process.stdin.flush()
