"""Which variable of a URI template is being typed, and the URI with a value of it."""

from __future__ import annotations

import asyncio

import pytest
from mcp.server.mcpserver import MCPServer
from mcp_types import Completion, CompletionArgument, CompletionContext, PromptReference, ResourceTemplateReference

from rkllm_chat.mcp_client.toolbox import Toolbox
from rkllm_chat.mcp_client.uri_templates import find_open_variable


@pytest.mark.parametrize(
    ("template", "typed", "expected"),
    [
        ("a://{x}", "a://", ("x", "", {}, "a://V%201")),
        ("a://{x}/b/{y}", "a://1", ("x", "1", {}, "a://V%201/b/")),
        ("a://{x}/b/{y}", "a://1/b/", ("y", "", {"x": "1"}, "a://1/b/V%201")),
        ("a://{x}/b/{y}", "a://1/b/c", ("y", "c", {"x": "1"}, "a://1/b/V%201")),
        ("a://x{?q,r}", "a://x?q=3&r=k", ("r", "k", {"q": "3"}, "a://x?q=3&r=V%201")),
        ("f:///{+path}", "f:///a/b", ("path", "a/b", {}, "f:///V%201")),
        ("a://{x}/b/{y}", "a://1/c", None),
        ("b://{x}", "a://1", None),
        ("a://{x", "a://", None),
    ],
)
def test_the_end_of_a_uri_belongs_to_one_variable(
    template: str, typed: str, expected: tuple[str, str, dict[str, str], str] | None
) -> None:
    found = find_open_variable(template, typed)
    assert (found and (found.name, found.typed, found.context, found.expand("V 1"))) == expected


def test_every_variable_is_completed_with_those_before_it() -> None:
    server = MCPServer("forge")

    @server.resource("repo://{owner}/{name}")
    def read(owner: str, name: str) -> str:
        return f"{owner}/{name}"

    @server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
    async def complete(
        ref: PromptReference | ResourceTemplateReference,
        argument: CompletionArgument,
        context: CompletionContext | None,
    ) -> Completion | None:
        del ref
        if argument.name == "owner":
            return Completion(values=["anna", "ken"])
        owner = ((context and context.arguments) or {}).get("owner")
        return Completion(values=[f"{owner}-boats", f"{owner}-tides"])

    async def ask() -> tuple[list[str], list[str]]:
        async with Toolbox.from_servers({"forge": server}) as toolbox:
            return await toolbox.complete_uri("repo://"), await toolbox.complete_uri("repo://ken/")

    assert asyncio.run(ask()) == (["repo://anna/", "repo://ken/"], ["repo://ken/ken-boats", "repo://ken/ken-tides"])
