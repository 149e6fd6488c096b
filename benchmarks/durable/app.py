"""An agent of ten calls whose tool does nothing, and whose model waits for `MODEL_SECONDS`."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from toolbus import Agent, AssistantMessage, ToolCall, tool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from toolbus.events.catalogue import ModelRequest
    from toolbus.store.protocol import Store

CALLS = 10


@tool
async def look(number: int) -> str:
    """Return a line."""
    return f"line {number}"


class Idle:
    """A model that calls the tool ten times."""

    name, seconds = "idle", float(os.environ.get("MODEL_SECONDS", "0"))

    async def complete(self, request: ModelRequest) -> AssistantMessage:
        """Return the next call, or the end."""
        await asyncio.sleep(self.seconds)
        done = sum(message.role == "tool" for message in request.messages)
        if done == CALLS:
            return AssistantMessage(content="done")
        return AssistantMessage(tool_calls=[ToolCall(name="look", arguments={"number": done})])

    async def stream(self, request: ModelRequest) -> AsyncIterator[AssistantMessage]:
        """Yield the whole answer."""
        yield await self.complete(request)


def agent(session_id: str, store: Store) -> Agent:
    """Return the agent of a session."""
    return Agent(Idle(), tools=[look], session_id=session_id, store=store)
