"""Run `rkllm-chat` as `python -m rkllm_chat` and as the console script.

The JSON commands for scripts bypass `cli.main`, which costs them import time.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Run `rkllm-chat` and return the exit code."""
    if sys.platform == "win32":
        from .core.windows import WINDOWS_NOTICE

        sys.exit(WINDOWS_NOTICE)
    try:
        from .cli import json_commands

        if sys.argv[1:2] and sys.argv[1] in json_commands.SUMMARIES:
            json_commands.main(sys.argv[1:])
        from .cli.main import main as run_command_line

        return run_command_line()
    except ModuleNotFoundError as error:  # in a checkout that is not installed
        from .cli.before_install import explain_missing

        return explain_missing(error, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
