"""Run `mcp-tool` as `python -m rkllm_chat.cli.mcp_tool`."""

from . import main

if __name__ == "__main__":
    main()
