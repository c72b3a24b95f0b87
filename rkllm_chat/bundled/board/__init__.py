"""An MCP server about the machine it runs on: time, gauges, sums, and the files of one folder.

Everything it does is read-only. `server.py` speaks MCP; the other files know nothing of it.
"""
