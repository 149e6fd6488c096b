"""The submission of a run, its cancellation, and another try."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.messages.immutable import EMPTY

if TYPE_CHECKING:
    from toolbus.agent.prompts import Prompt
    from toolbus.durable.engine import Engine
    from toolbus.durable.runs import AgentFactory, Run
    from toolbus.messages.records import JsonObject
    from toolbus.store.protocol import Store


async def submit(
    make_agent: AgentFactory,
    store: Store,
    engine: Engine,
    prompt: Prompt,
    *,
    queue: str,
    session_id: str | None = None,
    tenant: str = "",
    context: JsonObject = EMPTY,
    timeout: float | None = None,
) -> Run:
    """Append *prompt* to the session through the agent's handlers, and queue its run.

    Raises `MessageDenied` for a refused prompt, and `SessionBusyError` while the session runs.
    """
    raise NotImplementedError


async def cancel(store: Store, engine: Engine, run_id: str) -> Run | None:
    """Cancel a run, wherever it is; return it, None if there is none."""
    raise NotImplementedError


async def retry(store: Store, engine: Engine, run_id: str) -> Run | None:
    """Queue a next segment of an ended run, which goes on from its transcript."""
    raise NotImplementedError
