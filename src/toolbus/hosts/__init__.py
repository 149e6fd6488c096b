"""Inside coding agents: their hooks' events on a bus, and the verdicts in their words."""
