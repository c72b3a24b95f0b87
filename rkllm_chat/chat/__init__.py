"""A conversation between a user, a model and the tools of servers, without a user interface.

`app.open_app` opens model, servers and session together, `conversation.Conversation` is the state of the conversation,
and `turn.Turn` runs one turn of it as a stream of events. The `trust` command and the bundled model server import
single modules, so nothing is imported here.
"""
