"""The submission of a run, its cancellation, and another try."""

from __future__ import annotations

import os
import time
from contextlib import closing
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolbus.agent.prompts import content_of, message_of
from toolbus.approvals.recovery import withdraw
from toolbus.durable.holds import await_answers, open_run
from toolbus.durable.runs import (
    OPEN_WORDS,
    PREFIX,
    DurableRun,
    RunIndex,
    begin_next,
    make_agent_of,
    read_run,
    swap_run,
    workflow_of,
)
from toolbus.errors import MessageDenied, RegistrationError, SessionBusyError
from toolbus.events.catalogue import RUN_BEFORE, RunStart
from toolbus.messages.codec import decoder, encode
from toolbus.messages.ids import new_id
from toolbus.messages.immutable import EMPTY

if TYPE_CHECKING:
    from toolbus.agent.agent import Agent
    from toolbus.agent.prompts import Prompt
    from toolbus.durable.engine import WorkflowEngine
    from toolbus.durable.runs import AgentFactory
    from toolbus.messages.records import JsonObject, UserMessage
    from toolbus.store.protocol import Store

_PLACE, _KEY = "worker:", "key"
"""The session and the state with the key of the digests of tenants."""

_ASKED = "a guard asks about the run, and a durable run cannot wait before it has begun"


async def submit(
    make_agent: AgentFactory,
    store: Store,
    engine: WorkflowEngine,
    prompt: Prompt,
    *,
    queue: str,
    session_id: str | None = None,
    run_id: str | None = None,
    tenant: str = "",
    context: JsonObject = EMPTY,
    timeout: float | None = None,  # noqa: ASYNC109 - that of the run, not of this call
) -> DurableRun:
    """Append *prompt* to the session through the agent's handlers, and queue its run.

    A second submission of a *run_id* in a *session_id* appends nothing. After *timeout* seconds
    the run ends, wherever it is. Raises `MessageDenied` for a refused prompt, and
    `SessionBusyError` while the session runs, or has a run that has not ended, and
    `RegistrationError` for a *run_id* of another session.
    """
    now = time.time_ns()
    run = DurableRun(
        id=run_id or new_id(),
        session_id=session_id or new_id(),
        queue=queue,
        partition=await _partition(store, tenant),
        context=dict(context),  # As it is decoded, so that its bytes stay the same.
        word="submitting",
        submitted_ns=now,
        ends_ns=0 if timeout is None else now + round(timeout * 1e9),
    )
    known = await read_run(store, run.session_id, run.id)
    if known is None and run_id is not None:
        await _check_id(store, run_id)
    if known is None or known.word == "submitting":
        async with make_agent_of(make_agent, run.session_id, store) as agent:
            known = await _begin(agent, store, prompt, known or run)
    if known.word == "queued":
        await engine.enqueue(workflow_of(known))
    return known


async def _check_id(store: Store, run_id: str) -> None:
    """Raise `RegistrationError` if a session has a run with this id, by which workers find it."""
    with closing(RunIndex(store)) as index:
        if await index.find(run_id) is not None:
            raise RegistrationError(f"run {run_id!r}", "another session has a run with this id")


async def _begin(agent: Agent[Any], store: Store, prompt: Prompt, run: DurableRun) -> DurableRun:
    """Append *prompt* as the first message of *run*, and return its record.

    The session has this open run from now on; it is given back if it does not take the prompt.
    """
    queued, elsewhere = replace(run, word="queued"), "it is being submitted or cancelled elsewhere"
    if not await swap_run(store, None, run):
        raise RegistrationError(f"run {run.id!r}", elsewhere)
    try:
        await await_answers(store, run)
        if all(message.id != run.id for message in agent.messages):
            await _append(agent, prompt, run)
    except (MessageDenied, SessionBusyError):
        await store.swap_state(run.session_id, PREFIX + run.id, encode(run), None)
        raise
    if not await swap_run(store, run, queued):
        raise RegistrationError(f"run {run.id!r}", elsewhere)
    return queued


async def _append(agent: Agent[Any], prompt: Prompt, run: DurableRun) -> None:
    """Append *prompt* as `Agent.run` would, under the id of *run*."""
    content = content_of(prompt, run.session_id)
    scope = replace(agent.scope, run_id=run.id, context=run.context)
    start = RunStart(prompt=content, messages=tuple(agent.messages))
    context = await agent.bus.apply(RUN_BEFORE, start, scope=scope)
    if context.denied is not None or context.asked is not None:
        reason = _ASKED if context.denied is None else context.denied.reason
        raise MessageDenied("user", run.id, reason)
    message: UserMessage = message_of(prompt, context.value, lambda: run.id)
    await agent.append(replace(message, id=run.id))


async def cancel(store: Store, engine: WorkflowEngine, run: DurableRun) -> DurableRun:
    """Cancel a run, wherever it is; an ended run stays as it ended. Return its last record."""
    while run.word in OPEN_WORDS:
        cancelled = replace(run, word="cancelled")
        if await swap_run(store, run, cancelled):
            run = cancelled
        elif (current := await read_run(store, run.session_id, run.id)) is None:
            return run
        else:
            run = current
    if run.word == "cancelled":
        # Also for a cancellation that was killed at half.
        await engine.cancel(workflow_of(run).id)
        if await open_run(store, run.session_id) is None:
            await withdraw(store, run.session_id, None, time.time_ns())
    return run


async def retry(store: Store, engine: WorkflowEngine, run: DurableRun) -> DurableRun | None:
    """Queue a next segment of *run*, without its deadline; None if it has changed.

    Raises `SessionBusyError` if another run of the session has not ended.
    """
    await await_answers(store, run)
    queued = await begin_next(store, engine, run, ends_ns=0, deaths=0)
    if queued is not None:
        await engine.cancel(workflow_of(run).id)
    return queued


async def _partition(store: Store, tenant: str) -> str:
    """Return a digest of *tenant*, keyed by the store."""
    body = await store.read_state(_PLACE, _KEY)
    if body is None:
        await store.swap_state(_PLACE, _KEY, None, encode(os.urandom(32).hex()))
        body = await store.read_state(_PLACE, _KEY)
    key = bytes.fromhex(decoder(str)(body or b'""'))
    return blake2b(tenant.encode(), key=key, digest_size=16).hexdigest()
