"""What the program keeps in files: sessions, their export, the log, and statistics of this machine.

`SessionDirectory` finds sessions, `SessionLog` appends records to one, and `rebuild_conversation` turns records back
into a conversation. All files are private to their owner, and no link is followed.
"""

from .local_statistics import Measurements, ToolUsage
from .log_file import LogFile
from .session_files import SessionDirectory, SessionLog
from .session_records import LogEntry, Record, Setup, rebuild_conversation

__all__ = [
    "LogEntry",
    "LogFile",
    "Measurements",
    "Record",
    "SessionDirectory",
    "SessionLog",
    "Setup",
    "ToolUsage",
    "rebuild_conversation",
]
