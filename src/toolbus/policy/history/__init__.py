"""The earlier calls of a session, counted."""
