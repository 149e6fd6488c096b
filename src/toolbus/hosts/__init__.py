"""Integration with coding agents: hook events on a bus, and verdicts in each host's format."""
