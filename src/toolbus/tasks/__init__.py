"""What asyncio lacks: nothing in here knows of agents."""
