"""MCP servers: TRANSPORTS reach one, a connection owns one, a toolbox joins them all. They know no chat and no model.

The MCP SDK is imported when the first server is opened, because it costs 0.9 s (mcp 2.3.0, measured).
"""
