"""How well the ranking finds the tools of servers that it was not made for.

The questions were written from the names of the tools, before the ranking was run on them; they are not to be fitted to
it, nor is the thesaurus.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from real.servers import START_S, find_place
from rkllm_chat.config.settings import ServerConfig
from rkllm_chat.core.messages import Tool
from rkllm_chat.mcp_client.toolbox import Toolbox
from rkllm_chat.prompt.tool_ranking import ToolIndex, rank_tools, select_few_tools

pytestmark = pytest.mark.real

QUESTIONS = Path(__file__).with_name("ranking_questions.tsv")
NPM = {
    "playwright": ("playwright-mcp", {}),
    "github": ("mcp-server-github", {"GITHUB_PERSONAL_ACCESS_TOKEN": "none"}),
    "gitlab": ("mcp-server-gitlab", {"GITLAB_PERSONAL_ACCESS_TOKEN": "none"}),
    "slack": ("mcp-server-slack", {"SLACK_BOT_TOKEN": "none", "SLACK_TEAM_ID": "none"}),
    "google-maps": ("mcp-server-google-maps", {"GOOGLE_MAPS_API_KEY": "none"}),
    "notion": ("notion-mcp-server", {"NOTION_TOKEN": "none"}),
    "firecrawl": ("firecrawl-mcp", {"FIRECRAWL_API_KEY": "none"}),
    "brave-search": ("mcp-server-brave-search", {"BRAVE_API_KEY": "none"}),
}
ATLASSIAN = {
    "JIRA_URL": "https://jira.invalid",
    "JIRA_PERSONAL_TOKEN": "none",
    "CONFLUENCE_URL": "https://confluence.invalid",
    "CONFLUENCE_PERSONAL_TOKEN": "none",
}
PYPI = {
    "fetch": ("python/bin/mcp-server-fetch", {}),
    "obsidian": ("python-v1/bin/mcp-obsidian", {"OBSIDIAN_API_KEY": "none"}),
    "atlassian": ("python-v1/bin/mcp-atlassian", ATLASSIAN),
}
SCRIPTS = {**{name: (f"listed/node_modules/.bin/{script}", env) for name, (script, env) in NPM.items()}, **PYPI}
FIRST_GROUP = {"playwright", "github", "gitlab", "slack", "google-maps", "notion", "fetch"}
"""Servers whose tools are ranked together; those of the other four are ranked in a list of their own."""

LEAST_FIRST, LEAST_AMONG_FIVE, LEAST_AMONG_FEW, MOST_SELECTED = 0.64, 0.87, 0.81, 2


def list_tools(logs: Path) -> list[Tool]:
    """The tools of the eleven servers; none of them is called."""

    async def listed() -> list[Tool]:
        configs = [
            ServerConfig(name, command=str(find_place() / script), env=env, timeout_s=START_S)
            for name, (script, env) in SCRIPTS.items()
        ]
        async with Toolbox(configs, logs) as toolbox:
            assert not toolbox.failures, toolbox.failures
            return list(toolbox.tools)

    return asyncio.run(listed())


def test_the_right_tool_is_found_among_those_of_other_servers(tmp_path: Path) -> None:
    tools = list_tools(tmp_path)
    assert {tool.server for tool in tools} == SCRIPTS.keys()
    groups = [[tool for tool in tools if (tool.server in FIRST_GROUP) == is_first] for is_first in (True, False)]
    assert [len(group) for group in groups] == [100, 144]
    indexes = [ToolIndex(group) for group in groups]
    counts = Counter[str]()
    for line in QUESTIONS.read_text(encoding="utf-8").splitlines():
        language, question, answers = line.split("\t")
        right = {name.replace(".", "__", 1) for name in answers.split()}
        (index,) = (index for index in indexes if right <= {tool.full_name for tool in index.tools})
        ranked = [tool.full_name for tool in rank_tools(index, question, {})]
        few = {tool.full_name for tool in select_few_tools(index, question, {})}
        counts.update(["asked", language])
        counts.update({"first": bool(right & {*ranked[:1]}), "five": bool(right & {*ranked[:5]})})
        counts.update({"few": bool(right & few), "selected": len(few)})
    assert (counts["asked"], counts["ja"], counts["zh"]) == (124, 27, 27)
    shares = {kind: counts[kind] / counts["asked"] for kind in ("first", "five", "few", "selected")}
    assert shares["first"] >= LEAST_FIRST and shares["five"] >= LEAST_AMONG_FIVE, shares
    assert shares["few"] >= LEAST_AMONG_FEW and shares["selected"] <= MOST_SELECTED, shares
