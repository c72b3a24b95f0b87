"""One plugin of each kind: a backend, a call format, a subcommand and an MCP server."""
