"""The transcript, through which every message enters a session."""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from toolbus.bus.grace import within_grace
from toolbus.errors import AppendError, DeadlineError, StoreError, ToolbusError
from toolbus.events.catalogue import (
    MESSAGE_APPEND_AFTER,
    MESSAGE_APPEND_BEFORE,
    MESSAGE_PERSIST_BEFORE,
    TOOL_CALL_PERSIST_AFTER,
    TOOL_CALL_PERSIST_BEFORE,
    ToolCallPersist,
)
from toolbus.messages.records import AssistantMessage, Message, ToolCall, ToolMessage, ToolResponse
from toolbus.tasks.loops import LoopLock, reset_context, set_context
from toolbus.transcript.admission import (
    OVERDUE,
    admit,
    check_calls,
    duplicate_id,
    normalized,
    repeated_ids,
    stub,
)
from toolbus.transcript.views import Messages

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from contextvars import Token

    from toolbus.bus.bus import EventBus
    from toolbus.events.catalogue import Event, ObserveEvent, Scope, ToolSpec

logger = logging.getLogger("toolbus")

_AWAITED: tuple[Event, ...] = (
    MESSAGE_APPEND_BEFORE,
    MESSAGE_PERSIST_BEFORE,
    TOOL_CALL_PERSIST_BEFORE,
    TOOL_CALL_PERSIST_AFTER,
)
"""The events of an append whose handlers are awaited."""

_PERSIST: tuple[Event, ...] = (TOOL_CALL_PERSIST_BEFORE, TOOL_CALL_PERSIST_AFTER)


class RequestedCall(NamedTuple):
    """A tool call, and the id of the message with it."""

    message_id: str
    call: ToolCall


class ToolAnswer(NamedTuple):
    """The result of a call, and the spec of its *tool*, if known."""

    message: ToolMessage
    tool: ToolSpec | None


class AdmittedMessage(NamedTuple):
    """An admitted message, and the *copy* of it for the store."""

    message: Message
    copy: Message
    scope: Scope


class AppendTurn:
    """A context for the turn of one append to *transcript*, under its *lock*.

    Raises `AppendError` inside another turn of the same transcript, which would wait for itself.
    """

    __slots__ = ("_lasts", "_lock", "_outer", "_token", "_transcript")

    _token: Token[AppendTurn | None]

    def __init__(self, transcript: Transcript, lock: LoopLock) -> None:
        self._transcript, self._lasts = transcript, True
        self._lock: asyncio.Lock = lock.current()
        self._outer = _turn.get()

    async def __aenter__(self) -> None:
        if self._outer is not None and self._outer.holds(self._transcript):
            reason = "an append inside its own dispatch would wait for itself; "
            raise AppendError(self._transcript.session_id, reason + "use `agent.enqueue(message)`")
        await self._lock.acquire()
        self._token = _turn.set(self)

    async def __aexit__(self, *_: object) -> None:
        self._lasts = False
        reset_context(_turn, self._token)
        self._lock.release()

    def holds(self, transcript: Transcript) -> bool:
        """Return whether *transcript* is being appended to, in this turn or an outer one."""
        if self._lasts and self._transcript is transcript:
            return True
        return self._outer is not None and self._outer.holds(transcript)


class Transcript:
    """The messages of one session, append-only; *write* stores messages, if given.

    *write* gets the messages that enter together, and stores all or none. Cancelled, it still does
    so, and then raises `CancelledError`. *messages* are already stored; *left_open* has the ids of
    their unanswered calls, which a former process may have reported. With *sheltered* the caller
    of `enter` is never cancelled, or does not wait after a cancellation.
    """

    def __init__(
        self,
        bus: EventBus,
        session_id: str,
        write: Callable[..., Awaitable[None]] | None,
        messages: Sequence[Message] = (),
        *,
        sheltered: bool = False,
    ) -> None:
        self._bus, self.session_id, self._write = bus, session_id, write
        self._sheltered = sheltered
        self._items: list[Message] = []
        self._asked: dict[str, RequestedCall] = {}
        self._open: dict[str, ToolCall] = {}
        self._lock = LoopLock()
        self._ids: set[str] = set()
        self._indexed = 0
        for message in messages:
            self._remember(message)
        self.left_open = frozenset(self._open)

    @property
    def messages(self) -> Messages:
        """The messages so far; the view does not grow with the transcript."""
        return Messages(self._items)

    @property
    def length(self) -> int:
        """The number of messages so far."""
        return len(self._items)

    @property
    def unanswered(self) -> tuple[ToolCall, ...]:
        """The calls of a model without a tool message, in order."""
        return tuple(self._open.values())

    @property
    def appending(self) -> bool:
        """Whether this context is inside an append, where another would wait for itself."""
        turn = _turn.get()
        return turn is not None and turn.holds(self)

    async def append(
        self,
        message: Message,
        scope: Scope,
        tool: ToolSpec | None = None,
        *,
        judge: Callable[[Message], str | None] | None = None,
    ) -> Message:
        """Append *message* and return it as it was appended, after transformers and guards.

        *tool* is the spec of the tool that a tool message answers for. *judge* returns a reason to
        refuse the handlers' result, or None.

        Raises:
            MessageDenied: a guard denied it; in place of a tool message the denial is appended.
            StoreError: the store failed; nothing was appended.
            AppendError: inside this transcript's own dispatches, before open calls are answered,
                or for a message with a `flaw`.
        """
        if not isinstance(message, Message):
            reason = f"expected a message, got `{type(message).__name__}`"
            raise AppendError(self.session_id, reason)
        async with AppendTurn(self, self._lock):
            if self._open and not isinstance(message, ToolMessage):
                # Providers refuse a history with other messages between calls and answers.
                apart = f"{len(self._open)} tool calls have no answer yet; "
                apart += "use `agent.enqueue(message)`, it enters after them"
                raise AppendError(self.session_id, apart)
            if reason := self.flaw(message):
                raise AppendError(self.session_id, reason)
            return await self.enter(message, scope, tool, judge=judge)

    async def append_all(
        self, answers: Sequence[ToolAnswer], scope: Scope
    ) -> list[Message | BaseException]:
        """Append the results of several calls, in order, in one write.

        Return for each the appended message, or its error, which does not affect the others. A
        cancellation once the turn has begun does not end the append.
        """
        async with AppendTurn(self, self._lock):
            admitted = [await self._try_admit(answer, scope) for answer in answers]
            entering = [each for each in admitted if isinstance(each, AdmittedMessage)]
            errors = iter(await self._commit(entering))
        ended: list[Message | BaseException] = []
        for each in admitted:
            if not isinstance(each, AdmittedMessage):
                ended.append(each)
                continue
            error = next(errors)
            if error is None or isinstance(error, asyncio.CancelledError):
                ended.append(each.message)
            else:
                ended.append(error)
        return ended

    async def enter(
        self,
        message: Message,
        scope: Scope,
        tool: ToolSpec | None = None,
        *,
        judge: Callable[[Message], str | None] | None = None,
    ) -> Message:
        """Append as `append` does, without waiting for a turn, to a transcript with one user."""
        entering = await self._admit(message, scope, tool, judge)
        (error,) = await self._commit([entering])
        if error is not None:
            raise error
        return entering.message

    async def prepare(
        self,
        message: Message,
        scope: Scope,
        tool: ToolSpec | None = None,
        *,
        is_written: bool = True,
    ) -> AdmittedMessage:
        """Admit *message* and do all but write it: the caller writes the copy, then announces it.

        Like `enter`; without *is_written* no copy is made.
        """
        entering = await self._admit(message, scope, tool, is_written=is_written)
        self._remember(entering.message)
        return entering

    async def _try_admit(self, answer: ToolAnswer, scope: Scope) -> AdmittedMessage | BaseException:
        """Return the admitted message of *answer*, or the error that prevents it."""
        message, tool = answer
        if reason := self.flaw(message):
            return AppendError(self.session_id, reason)
        try:
            try:
                return await self._admit(message, scope, tool)
            except asyncio.CancelledError:
                # The end of a program cancels all tasks once; the call still gets its answer.
                return await self._admit(message, scope, tool)
        except GeneratorExit:
            raise  # Its loop was closed: nothing can be awaited.
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            return error

    async def _admit(
        self,
        message: Message,
        scope: Scope,
        tool: ToolSpec | None,
        judge: Callable[[Message], str | None] | None = None,
        *,
        is_written: bool = True,
    ) -> AdmittedMessage:
        """Return *message* as handlers admitted it, with the copy for the store."""
        bus = self._bus
        message = await admit(
            bus, message, scope, tool, self._asked, judge, sheltered=self._sheltered
        )
        copy = message
        is_told = isinstance(message, ToolMessage) and any(map(bus.has_listeners, _PERSIST))
        if (is_written or is_told) and bus.has_listeners(MESSAGE_PERSIST_BEFORE):
            copy = await self._stored_copy(message, scope)
        if is_told:
            await self._dispatch_persist(TOOL_CALL_PERSIST_BEFORE, copy, scope)
        return AdmittedMessage(message, copy, scope)

    async def _commit(self, entering: Sequence[AdmittedMessage]) -> list[BaseException | None]:
        """Write, add and announce messages; return the error of each, or None.

        A message with a cancellation as its error was appended.
        """
        cancelled = None
        try:
            if self._write is not None and entering:
                await self._write(*[each.copy for each in entering])
        except asyncio.CancelledError as error:
            cancelled = error
        except Exception as error:  # noqa: BLE001 - the caller raises it
            if len(entering) > 1:
                # A message that cannot be written does not affect the others.
                return [error for each in entering for error in await self._commit([each])]
            return [store_error(self.session_id, error)]
        for each in entering:
            self._remember(each.message)
        errors: list[BaseException | None] = []
        for each in entering:
            try:
                await self.announce(each)
            except GeneratorExit:
                raise  # As above.
            except BaseException as error:  # noqa: BLE001 - as above
                errors.append(error)
            else:
                errors.append(cancelled)
        return errors

    async def announce(self, entering: AdmittedMessage) -> None:
        """Notify the observers that a message was written."""
        message, copy, scope = entering
        try:
            if isinstance(copy, ToolMessage) and self._bus.has_listeners(TOOL_CALL_PERSIST_AFTER):
                await self._dispatch_persist(TOOL_CALL_PERSIST_AFTER, copy, scope)
        finally:
            if self._bus.has_listeners(MESSAGE_APPEND_AFTER):
                # These observers are not awaited, so they may append, and wait for their turn.
                with set_context(_turn, None):
                    self._bus.do(MESSAGE_APPEND_AFTER, message, scope=scope)

    @property
    def may_wait(self) -> bool:
        """Whether an append may wait for a handler, besides its write."""
        return any(map(self._bus.awaits, _AWAITED))

    def has(self, message_id: str) -> bool:
        """Return whether a message of this id is in the transcript."""
        while self._indexed < len(self._items):
            self._ids.add(self._items[self._indexed].id)
            self._indexed += 1
        return message_id in self._ids

    def knows(self, any_id: str) -> bool:
        """Return whether a message or a call of the transcript has this id."""
        return any_id in self._asked or self.has(any_id)

    def has_call(self, call_id: str) -> bool:
        """Return whether a message of the transcript has a call of this id."""
        return call_id in self._asked

    def is_open(self, call_id: str) -> bool:
        """Return whether the call of this id has no answer yet."""
        return call_id in self._open

    def flaw(self, message: Message) -> str | None:
        """Return the reason why *message* can never enter the present transcript, or None."""
        if self.has(message.id):
            return duplicate_id(message)
        match message:
            case AssistantMessage(tool_calls=calls) if calls:
                return repeated_ids(calls, self._asked)
            case ToolMessage(tool_call_id=call_id) if call_id not in self._open:
                fate = "has its answer already" if call_id in self._asked else "was never made"
                return f"call {call_id!r} {fate}"
        return None

    def _remember(self, message: Message) -> None:
        self._items.append(message)
        match message:
            case AssistantMessage(id=message_id, tool_calls=calls):
                self._asked.update({call.id: RequestedCall(message_id, call) for call in calls})
                self._open.update({call.id: call for call in calls})
            case ToolMessage(tool_call_id=call_id):
                self._open.pop(call_id, None)

    async def _stored_copy(self, message: Message, scope: Scope) -> Message:
        dispatch = partial(
            self._bus.apply, MESSAGE_PERSIST_BEFORE, message, scope=scope, check=check_calls
        )
        try:
            context = await within_grace(self._bus, MESSAGE_PERSIST_BEFORE, dispatch)
        except DeadlineError:
            return stub(message, OVERDUE)
        if context.rejected:
            return stub(message, f"handler {context.rejected.handler!r} {context.rejected.reason}")
        if context.denied:
            return stub(message, context.denied.reason)
        return normalized(message, context.value)

    async def _dispatch_persist(
        self, event: ObserveEvent[ToolCallPersist], copy: Message, scope: Scope
    ) -> None:
        assert isinstance(copy, ToolMessage)  # noqa: S101 - a copy keeps the role
        result = copy.tool_response or ToolResponse.from_text(copy.content)
        message_id, call = self._asked.get(copy.tool_call_id, _UNKNOWN_CALL)
        facts = ToolCallPersist(
            session_key=self.session_id,
            agent_id=scope.agent_id,
            tool_name=copy.tool_name,
            tool_call_id=copy.tool_call_id,
            tool_input=call.arguments if result.parameters is None else result.parameters,
            tool_result=result if event is TOOL_CALL_PERSIST_AFTER else None,
            message_id=message_id,
            tool_message_id=copy.id,
        )
        try:
            dispatch = partial(self._bus.observe, event, facts, scope=scope)
            await within_grace(self._bus, event, dispatch)
        except DeadlineError:
            logger.warning("an observer of %r did not end: %s", event.name, OVERDUE)


_turn: ContextVar[AppendTurn | None] = ContextVar("toolbus_append_turn", default=None)
"""The turn of this context."""

_UNKNOWN_CALL = RequestedCall("", ToolCall(id="", name=""))


def store_error(session_id: str, error: Exception) -> ToolbusError:
    """Return *error*, raised by a write of messages, as an error of toolbus."""
    if isinstance(error, ToolbusError):
        return error
    made = StoreError(session_id, f"{type(error).__name__}: {error}; nothing was appended")
    made.__cause__ = error
    return made
