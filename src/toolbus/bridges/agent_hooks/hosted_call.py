"""A call of a host of agent-hooks, between its two points."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from toolbus.events.catalogue import Ask, Deny
from toolbus.messages import schemas
from toolbus.messages.codec import changed

if TYPE_CHECKING:
    from toolbus.bridges.session import BridgeSession, CallEnd
    from toolbus.events.catalogue import ToolSpec
    from toolbus.messages.records import ToolCall, ToolResponse


class HostedCall:
    """A *call* of the host, while a task takes it through the handlers between its two points.

    *is_known*: the program has given its *spec*, which validates arguments. *host_asks*: the host
    decides questions. *failure* is the value of a failed call whose text was not shown yet.
    """

    failure: Any = None

    def __init__(
        self,
        session: BridgeSession,
        call: ToolCall,
        spec: ToolSpec,
        *,
        is_known: bool,
        host_asks: bool,
    ) -> None:
        loop = asyncio.get_running_loop()
        check = partial(schemas.problem, spec.input_schema) if is_known else None
        self.call, self._host_asks = call, host_asks
        # The point where the host goes on: with the final arguments, or with a question.
        self._stop: asyncio.Future[dict[str, Any] | Ask] = loop.create_future()
        self._decision: asyncio.Future[bool | Deny] = loop.create_future()
        self._result: asyncio.Future[ToolResponse] = loop.create_future()
        self._task = loop.create_task(
            session.call(call, spec, self._run, ask=self._ask, check=check)
        )

    async def _run(self, arguments: dict[str, Any]) -> ToolResponse:
        if not self._stop.done():
            self._stop.set_result(arguments)
        return await self._result

    async def _ask(self, ask: Ask, _: ToolCall) -> bool | Deny | None:
        if not self._host_asks or self._stop.done():
            return None
        self._stop.set_result(ask)
        return await self._decision

    @property
    def waits(self) -> bool:
        """Whether the host may still run the call."""
        return not self._task.done() and self.failure is None

    @property
    def refusal(self) -> str | None:
        """The text for the model in place of a result, if the call may not run."""
        return self._task.result().response.text if self._task.done() else None

    def likeness(self, call: ToolCall) -> int:
        """Return how well the host's *call* fits the judged one."""
        judged = self._stop.result() if self._stop.done() else None
        arguments = judged if isinstance(judged, dict) else self.call.arguments
        is_alike = self.call.name == call.name
        return is_alike + (is_alike and not changed(arguments, call.arguments))

    async def judge(self) -> dict[str, Any] | Ask | Deny:
        """Return the final arguments, the question, or the denial of a call that may not run."""
        try:
            ends: set[asyncio.Future[Any]] = {self._stop, self._task}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.cancel()
            raise
        if self._stop.done():
            return self._stop.result()
        return Deny(self._task.result().response.text)

    async def end(self, response: ToolResponse) -> CallEnd:
        """Return the end of the call with *response*, the result of its tool."""
        if not self._decision.done():
            self._decision.set_result(True)
        self._result.set_result(response)
        return await self._task

    async def cancel(self) -> None:
        """End the call without a result: the host did not run it, or its run was cancelled."""
        if isinstance(self._stop.done() and self._stop.result(), Ask):
            self._decision.set_result(Deny("approval was refused"))
        else:
            self._task.cancel()
        await asyncio.wait({self._task})
