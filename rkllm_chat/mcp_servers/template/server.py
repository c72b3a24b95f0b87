"""The MCP server new-server: a tool, a resource and a prompt to start from.

A client starts it and speaks to it on standard input and output. `pytest` tries it.
"""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

NOTES = {
    "shopping": "Bread, tea, a new lamp for the hall.",
    "garden": "Water the tomatoes on Monday. Ask Ida for a ladder.",
}

server = MCPServer("new-server", instructions="Notes of the house.")


# A model is told the name, the sentence and the parameters. A chat that trusts this server does not ask its user
# before a tool that only reads.
@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def find_notes(word: str) -> str:
    """Find notes with a word in them."""
    found = [f"{title}: {text}" for title, text in NOTES.items() if word.lower() in f"{title} {text}".lower()]
    return "\n".join(found) or f"No note has '{word}' in it."


@server.resource("notes://all", mime_type="text/plain")
def all_notes() -> str:
    """All notes."""
    return "\n".join(f"{title}: {text}" for title, text in NOTES.items())


@server.prompt()
def plan_day(day: str) -> str:
    """Plan a day from the notes."""
    return f"Look through my notes and tell me what to do on {day}."


if __name__ == "__main__":
    server.run("stdio")
