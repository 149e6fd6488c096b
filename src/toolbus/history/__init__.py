"""The contents of stored sessions as data: what happened to each message and call."""
