"""Transports to MCP servers: one module per transport, and what they share.

Nothing is imported here: one-shot commands use `addresses` and `framing` without the MCP SDK.
"""
