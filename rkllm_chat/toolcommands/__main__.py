"""`python -m rkllm_chat.toolcommands` is `mcp-tool`."""

from . import main

main()
