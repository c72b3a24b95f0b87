"""Our client against MCP servers that others wrote, as real processes over real transports."""

REAL_SERVERS = "RKLLM_CHAT_REAL_SERVERS"
