"""Standard output that cannot be written ends a command in one line and with its exit code."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from cli.mcp_tool.stage import COMMAND
from shell import Shell
from stage import PROGRAM

OUTPUTS = {">/dev/full": "No space left on device", ">&-": "Bad file descriptor"}


@pytest.mark.slow
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize(
    "name", ["-p", "-p json", "-p stream-json", "-p --help", "doctor", "mcp-tool", "mcp-tool --help"]
)
def test_an_output_that_cannot_be_written_is_one_line_and_an_exit_code(
    name: str, output: str, shell: Shell, script: Callable[..., str]
) -> None:
    shell.add_chaos()
    model = script("Hello.")
    turn = [*PROGRAM, "-p", "x", "--model", model, "--no-servers"]
    command = {
        "-p": turn,
        "-p json": [*turn, "--output-format", "json"],
        "-p stream-json": [*turn, "--output-format", "stream-json"],
        "-p --help": [*PROGRAM, "--help"],
        "doctor": [*PROGRAM, "doctor"],
        "mcp-tool": [*COMMAND, "chaos__act"],
        "mcp-tool --help": [*COMMAND, "--help"],
    }[name]
    for redirection, code in ((output, 8), ("", 0)):
        done = subprocess.run(
            ["/bin/sh", "-c", f'"$@" {redirection}', "sh", *command],
            env=shell.environment,
            cwd=shell.folder,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        if redirection:
            (line,) = done.stderr.splitlines()
            assert line.endswith(f": Standard output cannot be written: {OUTPUTS[output]}.")
        if redirection or name != "doctor":
            assert done.returncode == code, done.stderr
