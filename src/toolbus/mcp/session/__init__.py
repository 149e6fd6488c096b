"""A client session: its requests, its tool calls on the bus, and the server's messages."""
