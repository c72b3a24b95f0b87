"""The library as a client of the conformance suite: `python library.py URL`, as a program that imports `MCPClient`.

It does what `client.py` does, by the methods of the public class alone, which have no login of a person.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from conformance.client import NAME, accept_defaults, fill, tell
from rkllm_chat import MCPClient, MCPException, ServerConfig


async def main(url: str) -> int:
    """Use everything that the server has; the exit code is 0 if its tools could be listed."""
    context: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    given = {call["name"]: call["arguments"] for call in context.get("toolCalls", ())}
    server = ServerConfig(NAME, url=url, transport="http", timeout_s=20)
    async with MCPClient([server], elicit=accept_defaults) as client:
        try:
            tools = await client.list_tools(NAME)
        except MCPException as error:
            print(error, file=sys.stderr)
            return 1
        for tool in tools:
            arguments = fill(tool.schema)
            if isinstance(arguments.get("schema"), dict):
                arguments["schema"] = tools[0].schema
            if not given or tool.name in given:
                await tell(client.execute_tool(NAME, tool.name, given.get(tool.name, arguments)))
        for resource in await client.list_resources(NAME):
            await tell(client.read_resource(resource.uri, NAME))
        for prompt in await client.list_prompts(NAME):
            arguments = {argument.name: "text" for argument in prompt.arguments or ()}
            await tell(client.get_prompt(NAME, prompt.name, arguments))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[-1])))
