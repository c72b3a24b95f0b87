"""The rules of an MCP session that hold for every client of this program, without I/O.

Two drivers move the bytes: the blocking one of one-shot commands (`mcp_client.direct`) and that of asyncio
(`transports/driver.py`). What counts as a result, an error or a notice is decided here, so that no command differs
from another. One-shot commands import this package, so it imports little.
"""
