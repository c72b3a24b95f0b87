"""The client that the conformance suite starts: `python client.py URL`. It knows our toolbox, and no scenario by name.

It does what a chat with an eager model would do: connects, lists everything, calls every tool, reads every resource,
gets every prompt, answers every form with its defaults. Calls that MCP_CONFORMANCE_CONTEXT gives are made as given;
and a tool that asks for a schema is given that of the first one, as json-schema-2020-12-preservation wants.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult

from rkllm_chat.config import ServerConfig
from rkllm_chat.errors import ChatError
from rkllm_chat.servers.asks import Asks
from rkllm_chat.servers.toolbox import Toolbox

NAME = "conformance"
EXAMPLES: dict[str, Any] = {"string": "text", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}


async def converse(url: str, context: Mapping[str, Any]) -> int:
    """One sitting with one server; gives an exit code: 0 when the server could be opened."""
    config = ServerConfig(NAME, url=url, transport="http", timeout_s=20)
    with tempfile.TemporaryDirectory() as folder:
        box = Toolbox([config], Path(folder), Asks(elicit=accept_defaults))
        try:
            await box.open()
            if NAME in box.failures:
                print(box.failures[NAME], file=sys.stderr)
                return 1
            await use_everything(box, context)
        finally:
            await box.aclose()
    return 0


async def use_everything(box: Toolbox, context: Mapping[str, Any]) -> None:
    calls = {call["name"]: call["arguments"] for call in context.get("toolCalls", ())}
    tools = await box.list_tools(NAME)
    for tool in tools:
        arguments = fill(tool.schema)
        if isinstance(arguments.get("schema"), dict):
            arguments["schema"] = tools[0].schema
        if not calls or tool.name in calls:
            result = await box.call(tool, calls.get(tool.name, arguments), lambda *_: None)
            print(tool.name, result.status, result.text)
    for _, resource in await box.list_resources(NAME):
        await tell(box.read_resource(resource.uri, NAME))
    for _, prompt in await box.list_prompts(NAME):
        arguments = {argument.name: "text" for argument in prompt.arguments or ()}
        await tell(box.get_prompt(NAME, prompt.name, arguments))


async def tell(request: Any) -> None:
    try:
        print(await request)
    except ChatError as error:
        print(error)


def fill(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that fit a tool's schema, the simplest ones."""
    properties = schema.get("properties", {})
    return {name: example(properties.get(name, {})) for name in schema.get("required", ())}


def example(schema: Mapping[str, Any]) -> Any:
    if "default" in schema:
        return schema["default"]
    return next(iter(schema.get("enum", ())), EXAMPLES.get(schema.get("type", ""), "text"))


async def accept_defaults(_server: str, params: ElicitRequestParams) -> ElicitResult:
    """Fills a form with its defaults, and what is required and has none with an example; opens no URL."""
    if not isinstance(params, ElicitRequestFormParams):
        return ElicitResult(action="decline")
    schema = params.requested_schema
    given = {name: one["default"] for name, one in schema.get("properties", {}).items() if "default" in one}
    return ElicitResult(action="accept", content={**fill(schema), **given})


if __name__ == "__main__":
    sys.exit(asyncio.run(converse(sys.argv[1], json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")))))
