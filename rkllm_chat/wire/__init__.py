"""A small MCP client of our own for one question to one server, over stdio or plain HTTP. It does not know the SDK.

It speaks `initialize` (2024-11-05 to 2025-11-25) and the stateless form (2026-07-28). It offers a server nothing: no
sampling, no elicitation, no roots, no OAuth; whoever needs those goes through `servers/`.
"""
