"""Programs of agent frameworks that others wrote, against the API server: python agent_programs.py NAME URL MODEL.

Runs in the environment that `.ci/real_servers` makes for them. Prints the calls of the tool and the answer, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

QUESTION = "What is 12 * 34?"
calls: list[str] = []


def calculate(expression: str) -> str:
    """Calculate an arithmetic expression."""
    calls.append(expression)
    left, _, right = expression.partition(" * ")
    return f"{expression} = {int(left) * int(right)}"


async def run_agent(url: str, model: str, kind: str, is_streamed: bool) -> str:
    """A task of the OpenAI Agents SDK, through chat completions or responses."""
    import agents
    from openai import AsyncOpenAI

    agents.set_tracing_disabled(True)
    async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        agent = agents.Agent(
            name="assistant",
            model=getattr(agents, kind)(model=model, openai_client=client),
            model_settings=agents.ModelSettings(temperature=0),
            tools=[agents.function_tool(calculate)],
        )
        if not is_streamed:
            return str((await agents.Runner.run(agent, QUESTION)).final_output)
        run = agents.Runner.run_streamed(agent, QUESTION)
        async for _ in run.stream_events():
            pass
        return str(run.final_output)


def run_chain(model: Any) -> str:
    """The loop of LangChain's documentation, with one of its chat models."""
    from langchain_core.messages import HumanMessage
    from langchain_core.tools import tool

    offered = tool(calculate)
    bound, messages = model.bind_tools([offered]), [HumanMessage(QUESTION)]
    while True:
        whole: Any = None
        for part in bound.stream(messages):
            whole = part if whole is None else whole + part
        messages.append(whole)
        if not whole.tool_calls:
            return str(whole.content)
        messages += [offered.invoke(call) for call in whole.tool_calls]


def main(name: str, url: str, model: str) -> None:
    """Run one of the programs."""
    if name.startswith("agents"):
        kind = "OpenAIResponsesModel" if "responses" in name else "OpenAIChatCompletionsModel"
        answer = asyncio.run(run_agent(url, model, kind, "streamed" in name))
    elif name == "langchain-openai":
        from langchain_openai import ChatOpenAI

        answer = run_chain(ChatOpenAI(model=model, base_url=url, api_key="none", temperature=0))
    else:
        from langchain_ollama import ChatOllama

        answer = run_chain(ChatOllama(model=model, base_url=url.removesuffix("/v1"), temperature=0))
    print(json.dumps({"calls": calls, "answer": answer}))


if __name__ == "__main__":
    main(*sys.argv[1:])
