"""Presence of a person: the controlling terminal of a process, and the agents above it."""
