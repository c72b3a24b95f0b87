"""MCP servers: the client driven against well-behaved and misbehaving ones (`chaos`)."""
