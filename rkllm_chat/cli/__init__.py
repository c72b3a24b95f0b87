"""Command-line interfaces: the chat, print mode, JSON commands for scripts, `mcp-tool`, and the doctor."""
