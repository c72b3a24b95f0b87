"""`python -m rkllm_chat` is `rkllm-chat`."""

import sys

from .cli import main

sys.exit(main())
