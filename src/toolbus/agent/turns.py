"""What a session can do: run, stream a run, call a tool as the program."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from toolbus.agent.prompts import content_of
from toolbus.agent.runs import AgentRun
from toolbus.errors import MessageDenied
from toolbus.messages.records import AssistantMessage
from toolbus.tasks.shielding import shield_until_done
from toolbus.tools.contexts import NO_DEPS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence

    from toolbus.agent.model_calls import Piece
    from toolbus.agent.outputs import OutputType
    from toolbus.agent.prompts import Prompt
    from toolbus.agent.sessions import AgentSession
    from toolbus.events.catalogue import RunResult, ToolCallOutcome
    from toolbus.messages.records import JsonObject, ToolCall

V = TypeVar("V")
logger = logging.getLogger("toolbus")


async def run(  # noqa: PLR0917 - what `Agent.run` gets
    session: AgentSession,
    prompt: Prompt | None,
    context: JsonObject,
    show: Callable[[Piece], None] | None = None,
    deps: Any = NO_DEPS,
    output: OutputType | None = None,
) -> RunResult[Any]:
    """Run *session* on *prompt* to its end, without one from where it stands; see `Agent.run`."""
    if prompt is not None:
        content_of(prompt, session.scope.session_id)  # What is none leaves no trace.
    with session.work():
        scope = replace(session.scope, run_id=session.config.ids(), context=context)
        try:
            async with session.hold():
                if prompt is None:
                    session.check_begun()
                return await AgentRun(session, scope, show, deps, output).to_its_end(prompt)
        finally:
            await session.flush()


async def stream(
    start: Callable[[Callable[[Piece], None]], Coroutine[Any, Any, RunResult[Any]]],
) -> AsyncGenerator[Piece | RunResult[Any], None]:
    """Run what *start* gives; give what is released of its turns, at the end the result."""
    pieces: asyncio.Queue[Piece | None] = asyncio.Queue()
    work = asyncio.ensure_future(start(pieces.put_nowait))
    work.add_done_callback(lambda _: pieces.put_nowait(None))
    try:
        while (item := await pieces.get()) is not None:
            yield item
        yield work.result()
    finally:
        await shield_until_done(partial(_stopped, work))


async def call_tool(session: AgentSession, call: ToolCall) -> ToolCallOutcome:
    """Run *call* in *session*, after an assistant message that asks for it; see `Agent`."""
    with session.work():
        scope = session.scope
        try:
            await session.config.bus.catch_up()
            async with session.hold():
                await session.begin(scope)
                call = replace(call, id=session.new_id())
                outcomes = await _called(session, call)
                await session.take_waiting(scope)
        finally:
            await session.flush()
    return next(outcome for outcome in outcomes if outcome.requested.id == call.id)


async def _called(session: AgentSession, call: ToolCall) -> Sequence[ToolCallOutcome]:
    """Append a message that asks for *call*, and run it."""
    scope = session.scope
    asking = AssistantMessage(id=session.new_id(), tool_calls=(call,))
    asked = await session.transcript.append(asking, scope)
    calls = asked.tool_calls if isinstance(asked, AssistantMessage) else ()
    if call.id not in [other.id for other in calls]:
        raise MessageDenied(asked.role, asked.id, "a handler took the call out of it")
    return await session.runner(scope).call_all(calls)


async def _stopped(work: asyncio.Future[RunResult[Any]]) -> None:
    work.cancel()
    await asyncio.wait({work})
    if not work.cancelled():
        work.exception()  # Asked for, so that asyncio does not report it as never retrieved.
