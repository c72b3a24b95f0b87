"""The limits of a session with a server, for every client of this program."""

MB = 1 << 20
MAX_MESSAGE_BYTES = 4 * MB
"""Size of a message in a conversation."""
MAX_RESULT_BYTES = 64 * MB
"""Size of a message for one-shot commands, which can write a result to files; a model could not read as much."""
MAX_DISCARDED_BYTES = 128 * MB
"""Size of a line after which the connection ends."""
MAX_DEPTH = 100
"""Levels of nested objects and arrays in a message."""
LIST_TIMEOUT_S = 10.0
"""Deadline for all pages of a list together."""
MAX_PAGES = 500
"""Pages of a list that are read; that there are more is said."""
MAX_ENTRIES = 10_000
"""Entries of a list that are read; that there are more is said."""
MAX_LIST_CHARACTERS = 32 << 20
"""Size of a list after which no further page is read; that there are more is said."""
MAX_TOOLS = 1000
"""Tools of a server that are used in a conversation; that there are more is said."""
MAX_EXTENSIONS = 20
"""Factor by which a call that keeps reporting progress may exceed its limit."""
MAX_RETRY_WAIT_S = 10.0
"""Longest wait that a server can ask for before a request is repeated (HTTP 429)."""
DEFAULT_RESUME_S = 1.0
"""Wait before a stream of events is resumed, unless the server wishes another; the SDK's."""
MIN_RESUME_S = 0.05
"""Shortest wait before a stream of events is resumed."""
MAX_RESUME_FAILURES = 2
"""Attempts in a row to resume a stream of events; the SDK's."""
STDERR_TAIL_BYTES = 4096
"""End of a server's standard error that is kept for error messages."""
