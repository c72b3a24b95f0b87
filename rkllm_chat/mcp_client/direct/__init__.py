"""A small MCP client for one-shot commands: one server, over stdio or plain HTTP, without an event loop.

It supports `initialize` (2024-11-05 to 2025-11-25) and stateless requests (2026-07-28). It offers servers nothing: no
sampling, no elicitation, no roots, no OAuth; what needs those goes through `connection_client`.
"""
