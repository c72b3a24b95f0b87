"""MCP servers: ours driven against misbehaving ones (`chaos`, with modes F01 to F88 of its tests)."""
