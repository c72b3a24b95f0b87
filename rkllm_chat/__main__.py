"""`python -m rkllm_chat` is `rkllm-chat`: the one-shot commands at once, everything else through the door."""

from __future__ import annotations

import sys


def main() -> int:
    """`rkllm-chat`. Gives the exit code."""
    from .oneshot import NAMES

    if sys.argv[1:2] and sys.argv[1] in NAMES:
        from . import oneshot

        oneshot.main(sys.argv[1:])
    from . import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
