"""One plugin of each kind: engine, call format, subcommand, MCP server, slash command, export and transport."""
