"""A session: its transcript, its store, and its queue of messages."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections import deque
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolbus.agent import open_calls
from toolbus.agent.prompts import as_message, compare_system
from toolbus.errors import AppendError, ClosedError, MessageDenied, ToolbusError
from toolbus.events.catalogue import MODEL_CALL_DELTA
from toolbus.messages.ids import new_id
from toolbus.messages.records import AssistantMessage, Message, SystemMessage, ToolMessage
from toolbus.store.protocol import AppendRequest, originals_of
from toolbus.store.write_behind import WriteBehind
from toolbus.store.writer import Writer
from toolbus.tasks.loops import LoopLock
from toolbus.tools.calls.runner import Answered, ToolRunner
from toolbus.tools.contexts import NO_DEPS
from toolbus.transcript.admission import duplicate_id
from toolbus.transcript.transcript import ToolAnswer, Transcript

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from toolbus.agent.arguments import AgentConfig
    from toolbus.agent.prompts import Prompt
    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.events.catalogue import Scope, ToolCallOutcome
    from toolbus.store.writer import Holding

logger = logging.getLogger("toolbus")

_KEPT_RECORDS = 1_000


class AgentSession:
    """One session of an agent; `open` it before its first message, `close` it at its end."""

    def __init__(self, config: AgentConfig, scope: Scope) -> None:
        self.scope, self.config = scope, config
        self.transcript = Transcript(config.bus, scope.session_id, self._write)
        self._writer = Writer(config.store, scope.session_id, new_id())
        self.records: deque[DispatchRecord] = deque(maxlen=_KEPT_RECORDS)
        self._unsaved = WriteBehind()
        self.note = partial(_note, self.records, self._unsaved if config.store.durable else None)
        self._waiting: deque[Message] = deque()
        self.reported: dict[str, ToolCallOutcome | None] = {}
        self._beginning = LoopLock()
        self._opened = self._stale = self._closed = self._settled = False
        self._worker: asyncio.Task[Any] | None = None
        self._end_tap: Callable[[], object] = lambda: None

    async def open(self) -> None:
        """Read the stored messages of a former process, and begin the ledger."""
        await self._read()
        compare_system(self.config.system, self.transcript.messages, self.scope.session_id)
        self._opened = True
        self._tap()

    def hold(self, *, briefly: bool = False) -> Holding:
        """Return a context that makes this the only writer, after reading others' messages.

        Entering it raises `SessionBusyError` while another agent, of any process, runs in the
        session. See `Writer.hold` for *briefly*.
        """
        return self._writer.hold(self._catch_up, briefly=briefly)

    async def close(self) -> None:
        """Append the enqueued messages, write the last ledger records, and end the tap."""
        if self._waiting:
            try:
                if not self._opened:
                    await self.open()
                async with self.hold():
                    await self._append_waiting()
            except ToolbusError as error:
                logger.warning("%d enqueued messages are lost: %s", len(self._waiting), error)
        self._closed = True
        self._end_tap()
        await self.flush()

    async def _append_waiting(self) -> None:
        """Append the enqueued messages, unless that would withdraw an open question."""
        if self.transcript.unanswered and any(await open_calls.find_open(self)):
            raise AppendError(self.scope.session_id, "calls of the session wait for a person")
        await self.begin(self.scope)
        await self.take_waiting(self.scope)

    @contextmanager
    def work(self) -> Iterator[None]:
        """Run the session's calls exclusively; raises `AppendError` if another task does."""
        if self._is_busy():
            reason = "a run is in progress; wait for its end, or use `agent.enqueue(message)`"
            raise AppendError(self.scope.session_id, reason)
        task = self._worker = asyncio.current_task()
        try:
            yield
        finally:
            # A task left behind by a closed loop ends when collected, maybe after its successor.
            if self._worker is task:
                self._worker, self._stale = None, bool(self.transcript.unanswered)

    @property
    def has_begun(self) -> bool:
        """Whether the session has a message besides its system message."""
        messages = self.transcript.messages
        return not all(isinstance(message, SystemMessage) for message in messages)

    def check_begun(self) -> None:
        """Raise `AppendError` for a session without a run to resume."""
        if not self.has_begun:
            reason = "there is no run to resume; use `agent.run(prompt)`"
            raise AppendError(self.scope.session_id, reason)

    def new_id(self) -> str:
        """Return an id that no message or call of the session has."""
        made = self.config.ids()
        # Ids counted from 1 in each process repeat those of a former process.
        return new_id() if self.transcript.knows(made) else made

    async def begin(self, scope: Scope, *, settle: bool = False) -> None:
        """Prepare for the next message: answer stale calls, add the system message.

        Stale calls are those that no task runs any more; with *settle*, all open calls.
        """
        if self.transcript.appending:
            return  # The append that follows is refused, and waiting here would never end.
        system = self.config.system
        is_new = system is not None and not self.transcript.length
        self._is_busy()  # Marks the calls of an ended worker as stale.
        if not (settle or is_new or self._stale):
            return
        async with self._beginning.current():
            if settle or self._stale:
                await self.settle(scope)
            if system is not None and not self.transcript.length:
                message = SystemMessage(id=self.new_id(), content=system)
                await self.transcript.append(message, scope)

    @property
    def append_may_wait(self) -> bool:
        """Whether an append may wait for a handler or for the store."""
        return self.config.store.durable or self.transcript.may_wait

    async def append(self, message: Message | Prompt) -> Message:
        """Append *message* as the program, and return it as it was appended."""
        message = as_message(message, self.scope.session_id, self.new_id)
        await self.config.bus.catch_up()
        async with self.hold(briefly=True):
            # The program may answer an open call itself.
            if not isinstance(message, ToolMessage):
                await self.begin(self.scope)
            elif self._is_busy() and self.transcript.is_open(message.tool_call_id):
                reason = f"call {message.tool_call_id!r} is running, and its tool will answer it"
                raise AppendError(self.scope.session_id, reason)
            appended = await self.transcript.append(message, self.scope)
            if isinstance(message, ToolMessage):
                await open_calls.withdraw(self, [message.tool_call_id])
            return appended

    def _is_busy(self) -> bool:
        """Return whether a task works in it: not one that ended, or whose loop was closed."""
        worker = self._worker
        if worker is not None and (worker.done() or worker.get_loop().is_closed()):
            self._worker, self._stale = None, True
        return self._worker is not None

    async def settle(self, scope: Scope) -> None:
        """Answer the calls that were left open, and withdraw their questions.

        The first call also looks up the questions of a former process.
        """
        is_new_here = not self._settled and self.transcript.length > 0
        if self.transcript.unanswered or is_new_here:
            await open_calls.settle(self, scope)
        self._stale, self._settled = False, True

    def enqueue(self, message: Message | Prompt) -> None:
        """Keep *message* until the transcript can take it: before the next model call."""
        if self._closed:
            raise ClosedError(f"session {self.scope.session_id!r}")
        message = as_message(message, self.scope.session_id, self.new_id)
        if isinstance(message, AssistantMessage) and message.tool_calls:
            reason = "its tool calls would never run; use `agent.call_tool(name, arguments)`"
            raise AppendError(self.scope.session_id, reason)
        if self.transcript.has(message.id) or message.id in {other.id for other in self._waiting}:
            raise AppendError(self.scope.session_id, duplicate_id(message))
        self._waiting.append(message)

    async def take_waiting(self, scope: Scope) -> None:
        """Append the enqueued messages; keep any that fails."""
        while self._waiting:
            message, before = self._waiting.popleft(), self.transcript.length
            if reason := self.transcript.flaw(message):
                logger.warning("enqueued %s message %r: %s", message.role, message.id, reason)
                continue
            try:
                await self.transcript.append(message, scope)
            except MessageDenied as error:
                logger.warning("enqueued %s", error)
            except BaseException:
                if message.id not in [other.id for other in self.transcript.messages[before:]]:
                    self._waiting.appendleft(message)
                raise

    def runner(
        self, scope: Scope, deps: Any = NO_DEPS, answered: Answered | None = None
    ) -> ToolRunner:
        """Return the runner of one turn's tool calls; *deps* of a run replace the agent's."""
        config = self.config
        return ToolRunner(
            config.bus,
            config.tools,
            scope,
            approver=config.gate,
            append_all=self._append_answers,
            reported=self.reported,
            may_be_told=self._may_be_told,
            answered=answered,
            leaves_pending=True,
            ids=self.new_id,
            clock=config.clock,
            deps=config.deps if deps is NO_DEPS else deps,
        )

    def _may_be_told(self, call_id: str) -> bool:
        """Return whether another process may have dispatched `TOOL_CALL_AFTER` for a call.

        This is a former process, or the one that took an overdue session over.
        """
        transcript = self.transcript
        is_overdue = self._writer.is_overdue and transcript.has_call(call_id)
        return is_overdue or call_id in transcript.left_open

    async def _append_answers(
        self, answers: Sequence[ToolAnswer], scope: Scope
    ) -> list[Message | BaseException]:
        """Append the answers to calls together; return for each the message, or its error.

        A cancellation of this task itself, as at a program's end, does not prevent the append.
        """
        distinct: dict[str, ToolAnswer] = {}
        for answer in answers:
            message = answer.message
            if message.id in distinct:
                # A generator of ids may repeat one until a message of the session has it.
                message = replace(message, id=new_id())
            distinct[message.id] = answer._replace(message=message)
        append = partial(self.transcript.append_all, tuple(distinct.values()), scope)
        try:
            return await append()
        except asyncio.CancelledError:  # It had not begun yet.
            return await append()

    async def flush(self) -> None:
        """Write the ledger records that no message has taken along; only log a failure."""
        await self._unsaved.flush(self._write, "wait on")

    async def _write(self, *messages: Message) -> None:
        stored = AppendRequest(message=messages[-1] if messages else None, before=messages[:-1])
        if not self.config.store.durable:
            await self._writer.append(stored, self.transcript.length)
            return
        with self._unsaved.taking() as records:
            originals = originals_of(records) if self.config.keep_originals else ()
            stored = replace(stored, records=records, originals=originals)
            if messages:
                await self._writer.append(stored, self.transcript.length)
            else:
                await self.config.store.append(self.scope.session_id, stored)

    async def _read(self) -> None:
        messages = await self.config.store.read(self.scope.session_id)
        self.transcript = Transcript(self.config.bus, self.scope.session_id, self._write, messages)
        self._stale = bool(self.transcript.unanswered)

    async def _catch_up(self, length: int) -> None:
        # Stored messages never change, so an equal length means equal messages.
        if length != self.transcript.length:
            await self._read()

    def _tap(self) -> None:
        """Keep the records of this session's dispatches, for as long as the session exists."""
        self._end_tap()
        end = self.config.bus.tap(
            self.note,
            values=self.config.keep_originals,
            idle=False,
            without=(MODEL_CALL_DELTA,),
            session_id=self.scope.session_id,
        )
        # An agent without a close must not leave its tap on a bus that others still use.
        self._end_tap = weakref.finalize(self, end)


def _note(
    records: deque[DispatchRecord], unsaved: WriteBehind | None, record: DispatchRecord
) -> None:
    """Add *record* to the ledger of a session, to which the bus must not refer through its tap."""
    records.append(record.without_values())
    if unsaved is not None:
        unsaved.add(record)
