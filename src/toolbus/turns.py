"""A session and its runs: model, tools and transcript in one loop of turns."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from toolbus.errors import AppendError, MessageDenied, ModelError
from toolbus.events import (
    MODEL_CALL_AFTER,
    MODEL_CALL_BEFORE,
    MODEL_CALL_DELTA,
    MODEL_CALL_ERROR,
    RUN_AFTER,
    RUN_BEFORE,
    RUN_ERROR,
    TOOLS_PROVIDE,
    ModelDelta,
    ModelFailure,
    ModelReply,
    ModelRequest,
    RunFailure,
    RunResult,
    RunStart,
    Scope,
)
from toolbus.lifecycle import ToolRunner
from toolbus.lifecycle.offers import Offer
from toolbus.messages import AssistantMessage, SystemMessage, UserMessage
from toolbus.store import Stored
from toolbus.transcript import Transcript

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.bus import EventBus
    from toolbus.ledger import DispatchRecord
    from toolbus.lifecycle.approvals import Approvals
    from toolbus.messages import JsonObject, Message
    from toolbus.models import Model
    from toolbus.store import Store
    from toolbus.tools import Toolset

logger = logging.getLogger("toolbus")

KEPT_RECORDS = 1_000


class Setting(NamedTuple):
    """What all sessions of one agent share."""

    model: Model
    bus: EventBus
    tools: Toolset
    store: Store
    approvals: Approvals
    system: str | None
    max_turns: int
    model_settings: JsonObject
    ids: Callable[[], str]
    clock: Callable[[], int]


class Session:
    """One session of an agent; `open` it before its first message, `close` it at its end."""

    def __init__(self, setting: Setting, scope: Scope) -> None:
        self.scope, self._setting = scope, setting
        self.transcript = Transcript(setting.bus, scope.session_id, self._write)
        self.records: deque[DispatchRecord] = deque(maxlen=KEPT_RECORDS)
        self._unsaved: list[DispatchRecord] = []
        self._waiting: deque[Message] = deque()
        self._running = False
        self._end_tap = setting.bus.tap(self._log, idle=False, without=(MODEL_CALL_DELTA,))

    async def open(self) -> None:
        """Read what a former process left in the store."""
        messages = await self._setting.store.read(self.scope.session_id)
        setting, session_id = self._setting, self.scope.session_id
        self.transcript = Transcript(setting.bus, session_id, self._write, messages)

    async def close(self) -> None:
        """Write the last ledger records."""
        self._end_tap()
        if records := self._take_unsaved():
            await self._setting.store.append(
                self.scope.session_id, Stored(message=None, records=records)
            )

    def enqueue(self, message: Message) -> None:
        """Keep *message* until the transcript can take it: before the next model call."""
        self._waiting.append(message)

    def runner(self, scope: Scope) -> ToolRunner:
        """Return what runs the tool calls of one turn."""
        setting = self._setting
        return ToolRunner(
            setting.bus,
            setting.tools,
            scope,
            approver=setting.approvals,
            append=self.transcript.append,
            ids=setting.ids,
            clock=setting.clock,
        )

    async def run(
        self,
        prompt: str,
        context: JsonObject,
        on_delta: Callable[[ModelDelta], None] | None = None,
    ) -> RunResult:
        """Run the agent on *prompt* to its end; see `Agent.run`."""
        if self._running:
            reason = "a run is under way; wait for its end, or use `agent.enqueue(message)`"
            raise AppendError(self.scope.session_id, reason)
        self._running = True
        try:
            scope = replace(self.scope, run_id=self._setting.ids(), context=context)
            return await Run(self, self._setting, scope, on_delta).run(prompt)
        finally:
            self._running = False

    async def take_waiting(self, scope: Scope) -> None:
        """Append what was enqueued."""
        while self._waiting:
            message = self._waiting.popleft()
            try:
                await self.transcript.append(message, scope)
            except MessageDenied as error:
                logger.warning("enqueued %s", error)

    async def settle(self, scope: Scope) -> None:
        """Answer the calls that a former process, or a failed store, left open."""
        if calls := self.transcript.unanswered:
            await self.runner(scope).close_interrupted(calls)

    async def _write(self, message: Message) -> None:
        records = tuple(self._unsaved)
        stored = Stored(message=message, records=records)
        await self._setting.store.append(self.scope.session_id, stored)
        del self._unsaved[: len(records)]

    def _log(self, record: DispatchRecord) -> None:
        if record.scope.session_id == self.scope.session_id:
            self.records.append(record)
            if self._setting.store.durable:
                self._unsaved.append(record)

    def _take_unsaved(self) -> tuple[DispatchRecord, ...]:
        records, self._unsaved = tuple(self._unsaved), []
        return records


class Run:
    """One run: turns of a model call and its tool calls, until the model has answered."""

    def __init__(
        self,
        session: Session,
        setting: Setting,
        scope: Scope,
        on_delta: Callable[[ModelDelta], None] | None,
    ) -> None:
        self._session, self._setting, self._scope = session, setting, scope
        self._bus, self._on_delta = setting.bus, on_delta
        self._usage: Counter[str] = Counter()
        self._first = len(session.transcript.messages)
        self._last: AssistantMessage | None = None

    async def run(self, prompt: str) -> RunResult:
        """Return how it ended; `RUN_AFTER` fires once, whatever happens."""
        start = RunStart(prompt=prompt, messages=tuple(self._session.transcript.messages))
        result = self._result("cancelled")
        try:
            result = await self._attempt(start)
        except asyncio.CancelledError:
            result = self._result("cancelled")
            raise
        except Exception as error:
            result = self._result("error", f"{type(error).__name__}: {error}")
            if (answer := await self._recover(start, error)) is None:
                raise
            result = answer
        finally:
            self._bus.do(RUN_AFTER, result, scope=self._scope)
        return result

    async def _attempt(self, start: RunStart) -> RunResult:
        context = await self._bus.apply(RUN_BEFORE, start, scope=self._scope)
        denied = context.denied
        if denied is None and context.asked is not None:
            denied = await self._setting.approvals.refusal(context.asked, None, self._scope)
        if denied is not None:
            return self._result("denied", denied.reason)
        await self._begin(context.value.prompt)
        for _ in range(self._setting.max_turns):
            self._scope = replace(self._scope, turn=self._scope.turn + 1)
            await self._bus.catch_up()
            if (end := await self._turn()) is not None:
                return end
        return self._result("max_turns", f"no final answer after {self._scope.turn} turns")

    async def _begin(self, prompt: str) -> None:
        session, ids = self._session, self._setting.ids
        await session.settle(self._scope)
        system = self._setting.system
        if system is not None and not session.transcript.messages:
            message = SystemMessage(id=ids(), content=system)
            await session.transcript.append(message, self._scope)
        await session.take_waiting(self._scope)
        await session.transcript.append(UserMessage(id=ids(), content=prompt), self._scope)

    async def _turn(self) -> RunResult | None:
        """Call the model, then the tools that it asked for; None if the run goes on."""
        session = self._session
        offer = Offer.of(
            await self._bus.apply(TOOLS_PROVIDE, self._setting.tools.specs, scope=self._scope)
        )
        request = ModelRequest(
            model=self._setting.model.name,
            messages=tuple(session.transcript.messages),
            tools=tuple(offer.specs.values()),
            settings=self._setting.model_settings,
        )
        context = await self._bus.apply(MODEL_CALL_BEFORE, request, scope=self._scope)
        if context.denied is not None:
            return self._result("denied", context.denied.reason)
        message = context.answer or await self._call_model(context.value)
        try:
            appended = await session.transcript.append(message, self._scope)
        except MessageDenied as error:
            return self._result("denied", error.reason)
        assert isinstance(appended, AssistantMessage)  # noqa: S101 - a replacement keeps the role
        self._last = appended
        self._usage.update(_counts(appended.usage))
        if appended.tool_calls:
            await session.runner(self._scope).call_all(appended.tool_calls, offer)
        await session.take_waiting(self._scope)
        return None if appended.tool_calls else self._result("ok")

    async def _call_model(self, request: ModelRequest) -> AssistantMessage:
        clock = self._setting.clock
        since = clock()
        try:
            message = await self._ask_model(request)
        except Exception as error:
            failure = ModelFailure(
                request=request, error_type=type(error).__name__, error_text=str(error)
            )
            context = await self._bus.apply(MODEL_CALL_ERROR, failure, scope=self._scope)
            if context.denied is not None or context.answer is None:
                raise
            return context.answer  # type: ignore[no-any-return]  # the event's answer type
        reply = ModelReply(request=request, message=message, duration_ns=clock() - since)
        self._bus.do(MODEL_CALL_AFTER, reply, scope=self._scope)
        return message

    async def _ask_model(self, request: ModelRequest) -> AssistantMessage:
        model, last = self._setting.model, None
        if self._on_delta is None:
            last = await model.complete(request)
        else:
            async for piece in model.stream(request):
                if isinstance(piece, ModelDelta):
                    self._bus.do(MODEL_CALL_DELTA, piece, scope=self._scope)
                    self._on_delta(piece)
                else:
                    last = piece
        if not isinstance(last, AssistantMessage):
            reason = f"it gave `{type(last).__name__}` instead of an AssistantMessage"
            raise ModelError(model.name, reason)
        return last

    async def _recover(self, start: RunStart, error: Exception) -> RunResult | None:
        failure = RunFailure(start=start, error_type=type(error).__name__, error_text=str(error))
        context = await self._bus.apply(RUN_ERROR, failure, scope=self._scope)
        return None if context.denied is not None else context.answer

    def _result(self, status: Any, reason: str | None = None) -> RunResult:
        return RunResult(
            status=status,
            message=self._last,
            turns=self._scope.turn,
            usage=dict(self._usage),
            messages=self._session.transcript.messages[self._first :],
            reason=reason,
        )


def _counts(usage: JsonObject) -> dict[str, int]:
    return {key: value for key, value in usage.items() if type(value) is int}
