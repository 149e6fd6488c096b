"""Additions to asyncio, which know nothing of agents."""
