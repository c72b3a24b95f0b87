"""The client that the conformance suite starts: `python client.py URL`. It knows our toolbox, and one scenario by name.

It does what a chat with an eager model would do: connects, lists everything, calls every tool, reads every resource,
gets every prompt, loads every skill (except where the scenario is that nobody asks for one), answers every form with
its defaults, logs in wherever it has to. Calls that MCP_CONFORMANCE_CONTEXT gives are made as given; and a tool that
asks for a schema is given that of the first one, as json-schema-2020-12-preservation wants.
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
from urllib.parse import urlsplit

import httpx2
from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult

from rkllm_chat.config.oauth import OAuth
from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.core.errors import ChatError
from rkllm_chat.core.skills import Skill
from rkllm_chat.mcp_client.handlers import ClientHandlers
from rkllm_chat.mcp_client.toolbox import Toolbox

NAME = "conformance"
DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""The client ID metadata document that the suite's servers accept; nobody reads it."""
TOKEN_EXCHANGE = {
    "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
    "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
    "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
}
EXAMPLES: dict[str, Any] = {"string": "text", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}


async def converse(url: str, context: Mapping[str, Any]) -> int:
    """One sitting with one server; gives an exit code: 0 when the server could be opened."""
    with tempfile.TemporaryDirectory() as folder:
        oauth = await make_oauth(url, context, Path(folder))
        config = ServerConfig(NAME, url=url, transport="http", timeout_s=20, oauth=oauth)
        handlers = ClientHandlers(elicit=accept_defaults, log_in=visit, agree_to_login=agree)
        toolbox = Toolbox([config], Path(folder, "logs"), handlers)
        try:
            await toolbox.open()
            if NAME in toolbox.failures:
                print(toolbox.failures[NAME], file=sys.stderr)
                return 1
            await use_everything(toolbox, context)
        finally:
            await toolbox.aclose()
    return 0


async def use_everything(toolbox: Toolbox, context: Mapping[str, Any]) -> None:
    calls = {call["name"]: call["arguments"] for call in context.get("toolCalls", ())}
    tools = await toolbox.list_tools(NAME)
    for tool in tools:
        arguments = fill(tool.schema)
        if isinstance(arguments.get("schema"), dict):
            arguments["schema"] = tools[0].schema
        if not calls or tool.name in calls:
            result = await toolbox.call(tool, calls.get(tool.name, arguments), lambda *_: None)
            print(tool.name, result.status, result.text)
    for _, resource in await toolbox.list_resources(NAME):
        await tell(toolbox.read_resource(resource.uri, NAME))
    for _, prompt in await toolbox.list_prompts(NAME):
        arguments = {argument.name: "text" for argument in prompt.arguments or ()}
        await tell(toolbox.get_prompt(NAME, prompt.name, arguments))
    for skill in toolbox.skills if wants_skills() else ():
        await tell(load_skill(toolbox, skill))


async def load_skill(toolbox: Toolbox, skill: Skill) -> list[str]:
    """All files of a skill, its main file first; none after one that is not as listed."""
    return [await toolbox.read_skill(skill), *[await toolbox.read_skill(skill, path) for path in skill.paths]]


def wants_skills() -> bool:
    """Whether a user asks for skills; one who does not is only a scenario's name to the suite."""
    return not os.environ.get("MCP_CONFORMANCE_SCENARIO", "").endswith("-no-prefetch")


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


async def agree(_server: str, _url: str) -> bool:
    return True


async def visit(_server: str, url: str, _why: str) -> str:
    """A person whose browser is sent on at once: the address where it ends."""
    async with httpx2.AsyncClient() as client:
        response = await client.get(url)
    return str(response.headers["location"])


async def make_oauth(url: str, context: Mapping[str, Any], folder: Path) -> OAuth:
    """What a user of this server would write; the suite says only in a scenario's name that a machine is to log in."""
    client = {"client_id": context.get("client_id", DOCUMENT), "client_secret": context.get("client_secret", "")}
    if "private_key_pem" in context:
        key = folder / "key.pem"
        key.write_text(context["private_key_pem"], encoding="ascii")
        algorithm = context["signing_algorithm"]
        return OAuth("client_credentials", **client, private_key_file=str(key), algorithm=algorithm)
    if "idp_id_token" in context:
        issuer, assertion = await exchange(url, context)
        return OAuth("identity_assertion", **client, issuer=issuer, assertion=assertion)
    is_machine = "client-credentials" in context.get("name", "")
    return OAuth("client_credentials" if is_machine else "authorization_code", **client)


async def exchange(url: str, context: Mapping[str, Any]) -> tuple[str, str]:
    """The server's issuer, and what the identity provider says to it about the user (SEP-990, the first leg)."""
    parts = urlsplit(url)
    async with httpx2.AsyncClient() as client:
        place = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"
        resource = (await client.get(place)).json()
        issuer = resource["authorization_servers"][0]
        wanted = {
            **TOKEN_EXCHANGE,
            "audience": issuer,
            "resource": resource["resource"],
            "subject_token": context["idp_id_token"],
            "client_id": context["idp_client_id"],
        }
        answer = await client.post(context["idp_token_endpoint"], data=wanted)
    return issuer, answer.json()["access_token"]


if __name__ == "__main__":
    sys.exit(asyncio.run(converse(sys.argv[1], json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")))))
