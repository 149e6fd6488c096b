"""Additions to asyncio, independent of agents."""
