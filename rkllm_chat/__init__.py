"""A terminal chat with an on-device model that calls MCP tools. It imports nothing heavy."""

__version__ = "0.1.0"
