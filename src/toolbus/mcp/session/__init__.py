"""A client session: its requests, the tool calls on the bus, and the messages of the server."""
