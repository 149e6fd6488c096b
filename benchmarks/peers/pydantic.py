"""To do."""
