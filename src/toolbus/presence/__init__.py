"""The person at the terminal: what only a person may do reads from there."""
