"""Interactive terminal front end: input line, keys, screen, slash commands and rendering of events.

`repl.run_chat` runs the chat. Without imports here, print mode loads `event_lines` without prompt_toolkit.
"""
