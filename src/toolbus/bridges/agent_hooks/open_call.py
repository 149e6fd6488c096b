"""A call of a host, between the point before it runs and the point after it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.events.catalogue import Ask, Deny, ToolSpec
from toolbus.messages import schemas

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.bridges.session import BridgeSession, CallEnd
    from toolbus.messages.records import ToolCall, ToolResponse


class HostFacts(NamedTuple):
    """The program's own facts about its host: the *specs* of tools, and whether the host asks."""

    specs: Mapping[str, ToolSpec]
    host_asks: bool


class OpenCall:
    """A call in the host, while *task* takes it through the handlers.

    *stop* is the point where the host goes on: with the final arguments, or with a question.
    *place* counts the calls with the same id before it.
    """

    def __init__(
        self, session: BridgeSession, call: ToolCall, spec: ToolSpec, facts: HostFacts
    ) -> None:
        loop = asyncio.get_running_loop()
        self.call, self.place = call, 0
        self.stop: asyncio.Future[dict[str, Any] | Ask] = loop.create_future()
        self._decision: asyncio.Future[bool | Deny] = loop.create_future()
        self._result: asyncio.Future[ToolResponse] = loop.create_future()
        self._host_asks, known = facts.host_asks, facts.specs.get(call.name)
        check = None if known is None else partial(schemas.problem, known.input_schema)
        work = session.call(call, spec, self._run, ask=self._ask, check=check)
        self.task = loop.create_task(work)

    async def _run(self, arguments: dict[str, Any]) -> ToolResponse:
        if not self.stop.done():
            self.stop.set_result(arguments)
        return await self._result

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments with which the host may run the call, as far as it is judged."""
        judged = self.stop.result() if self.stop.done() else None
        return judged if isinstance(judged, dict) else self.call.arguments

    async def _ask(self, ask: Ask, _: ToolCall) -> bool | Deny | None:
        if not self._host_asks or self.stop.done():
            return None
        self.stop.set_result(ask)
        return await self._decision

    async def judge(self) -> dict[str, Any] | Ask | CallEnd:
        """Return the final arguments, the question, or the end of a call that may not run."""
        try:
            ends: set[asyncio.Future[Any]] = {self.stop, self.task}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.cancel()  # The host took too long a wait for a denial.
            raise
        return self.stop.result() if self.stop.done() else self.task.result()

    async def end(self, response: ToolResponse) -> CallEnd:
        """Return the end of the call with *response*, the result of its tool."""
        if not self._decision.done():
            self._decision.set_result(True)
        self._result.set_result(response)
        return await self.task

    async def cancel(self) -> None:
        """End the call without a result: the host did not run it, or its run was cancelled."""
        if isinstance(self.stop.done() and self.stop.result(), Ask):
            self._decision.set_result(Deny("approval was refused"))
        else:
            self.task.cancel()
        await asyncio.wait({self.task})
