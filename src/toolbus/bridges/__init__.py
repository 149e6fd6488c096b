"""Bridges that run components in other people's agent frameworks, one module a framework."""
