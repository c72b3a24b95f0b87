"""Which tools do my MCP servers have, and what would a model read of them? python examples/tool_report.py mcp.json."""

from __future__ import annotations

import sys

from rkllm_chat import MCPClient, MCPException, ToolCallScanner, render_prompt

MODEL = "Qwen3-8B"


def main() -> int:
    """Print the tools of each server, the prompt with all of them, and a call that is found in a reply."""
    try:
        with MCPClient.sync(sys.argv[1]) as client:
            tools = client.list_tools()
            for server, error in client.failures.items():
                print(f"{server}: {error}", file=sys.stderr)
    except MCPException as error:
        print(error, file=sys.stderr)
        return error.exit_code
    for server, found in tools.items():
        print(f"{server}: {', '.join(tool.name for tool in found)}")
    offered = [tool for found in tools.values() for tool in found]
    print(render_prompt([{"role": "user", "content": "What time is it in Oslo?"}], offered, MODEL, "hermes"))
    scanner = ToolCallScanner(offered, MODEL)
    reply = '<tool_call>{"name": "get_time", "arguments": {"place": "Oslo"}}</tool_call>'
    print([*scanner.feed(reply), *scanner.close()])
    return 0


if __name__ == "__main__":
    sys.exit(main())
