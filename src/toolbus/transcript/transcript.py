"""The transcript: the only way in which a message enters a session."""

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
    indistinct,
    known,
    settled,
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
"""The events of an append whose handlers are waited for."""

_PERSIST: tuple[Event, ...] = (TOOL_CALL_PERSIST_BEFORE, TOOL_CALL_PERSIST_AFTER)


class RequestedCall(NamedTuple):
    """A tool call, and the id of the message that asked for it."""

    message_id: str
    call: ToolCall


class ToolAnswer(NamedTuple):
    """The result of a call, and the spec of its *tool*, if that is known."""

    message: ToolMessage
    tool: ToolSpec | None


class EnteringMessage(NamedTuple):
    """A message that was let in, and the *copy* of it that is to be written."""

    message: Message
    copy: Message
    scope: Scope


class AppendTurn:
    """A context in which an append has its turn in *transcript*, behind its *lock*.

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
            reason = "from inside one of its own dispatches it waits for itself; "
            raise AppendError(self._transcript.session_id, reason + "use `agent.enqueue(message)`")
        await self._lock.acquire()
        self._token = _turn.set(self)

    async def __aexit__(self, *_: object) -> None:
        self._lasts = False
        reset_context(_turn, self._token)
        self._lock.release()

    def holds(self, transcript: Transcript) -> bool:
        """Return whether *transcript* is being appended to, here or further out."""
        if self._lasts and self._transcript is transcript:
            return True
        return self._outer is not None and self._outer.holds(transcript)


class Transcript:
    """The messages of one session, append-only; *write* puts messages into the store, if any.

    *write* gets the messages that enter together, and writes all or none. Cancelled, it ends when
    that has happened, and then raises `CancelledError`. *messages* are those that are stored
    already; of the calls without an answer among them, *left_open* has the ids of those of which a
    former process may have told. With *sheltered* whoever calls `enter` is not cancelled, or does
    not wait then.
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
        """How many messages there are so far."""
        return len(self._items)

    @property
    def unanswered(self) -> tuple[ToolCall, ...]:
        """The calls that a model asked for and that have no tool message yet, in order."""
        return tuple(self._open.values())

    @property
    def appending(self) -> bool:
        """Whether this very context is inside an append, where another would wait for itself."""
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

        *tool* is the spec of the tool that a tool message answers for. *judge* returns why the
        message is refused as the handlers left it, or None.

        Raises:
            MessageDenied: a guard refused it; of a tool message the refusal is appended instead.
            StoreError: the store failed; nothing was appended.
            AppendError: from inside this transcript's own dispatches, before open calls are
                answered, or for a message that has a `flaw`.
        """
        if not isinstance(message, Message):
            reason = f"expected a message, got `{type(message).__name__}`"
            raise AppendError(self.session_id, reason)
        async with AppendTurn(self, self._lock):
            if self._open and not isinstance(message, ToolMessage):
                # Providers refuse a history where calls and answers are apart.
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

        Return each as it was appended, or the error that kept it out, which keeps none of the
        others out. A cancellation that comes once it has its turn does not end it.
        """
        async with AppendTurn(self, self._lock):
            admitted = [await self._let_in(answer, scope) for answer in answers]
            entering = [each for each in admitted if isinstance(each, EnteringMessage)]
            errors = iter(await self._keep(entering))
        ended: list[Message | BaseException] = []
        for each in admitted:
            if not isinstance(each, EnteringMessage):
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
        """Append as `append` does, to a transcript with one user: it does not wait for its turn."""
        entering = await self._admit(message, scope, tool, judge)
        (error,) = await self._keep([entering])
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
    ) -> EnteringMessage:
        """Let *message* in and do all but write it: whoever calls writes the copy, then announces.

        As `enter`; a message that *is_written* nowhere needs no copy.
        """
        entering = await self._admit(message, scope, tool, is_written=is_written)
        self._remember(entering.message)
        return entering

    async def _let_in(self, answer: ToolAnswer, scope: Scope) -> EnteringMessage | BaseException:
        """Return the message of *answer* as it may be written, or why it may not."""
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
            raise  # Its loop was closed: nothing can be waited for.
        except BaseException as error:  # noqa: BLE001 - its caller raises it
            return error

    async def _admit(
        self,
        message: Message,
        scope: Scope,
        tool: ToolSpec | None,
        judge: Callable[[Message], str | None] | None = None,
        *,
        is_written: bool = True,
    ) -> EnteringMessage:
        """Return *message* as handlers let it in, with the copy that is to be written."""
        bus = self._bus
        message = await admit(
            bus, message, scope, tool, self._asked, judge, sheltered=self._sheltered
        )
        copy = message
        is_told = isinstance(message, ToolMessage) and any(map(bus.has_listeners, _PERSIST))
        if (is_written or is_told) and bus.has_listeners(MESSAGE_PERSIST_BEFORE):
            copy = await self._stored_copy(message, scope)
        if is_told:
            await self._tell_persist(TOOL_CALL_PERSIST_BEFORE, copy, scope)
        return EnteringMessage(message, copy, scope)

    async def _keep(self, entering: Sequence[EnteringMessage]) -> list[BaseException | None]:
        """Write, remember and announce messages; return the error of each, or None.

        A message whose error is a cancellation is in: that takes nothing back.
        """
        cancelled = None
        try:
            if self._write is not None and entering:
                await self._write(*[each.copy for each in entering])
        except asyncio.CancelledError as error:
            cancelled = error
        except Exception as error:  # noqa: BLE001 - its caller raises it
            if len(entering) > 1:
                # A message that cannot be written keeps none of its siblings out.
                return [error for each in entering for error in await self._keep([each])]
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

    async def announce(self, entering: EnteringMessage) -> None:
        """Tell the observers that a message was written."""
        message, copy, scope = entering
        try:
            if isinstance(copy, ToolMessage) and self._bus.has_listeners(TOOL_CALL_PERSIST_AFTER):
                await self._tell_persist(TOOL_CALL_PERSIST_AFTER, copy, scope)
        finally:
            if self._bus.has_listeners(MESSAGE_APPEND_AFTER):
                # Nobody waits for these observers: so they may append, and wait for their turn.
                with set_context(_turn, None):
                    self._bus.do(MESSAGE_APPEND_AFTER, message, scope=scope)

    @property
    def may_wait(self) -> bool:
        """Whether an append waits for a handler, besides its write."""
        return any(map(self._bus.awaits, _AWAITED))

    def has(self, message_id: str) -> bool:
        """Tell whether a message of this id is in the transcript."""
        while self._indexed < len(self._items):
            self._ids.add(self._items[self._indexed].id)
            self._indexed += 1
        return message_id in self._ids

    def knows(self, any_id: str) -> bool:
        """Return whether a message or a call of the transcript has this id."""
        return any_id in self._asked or self.has(any_id)

    def has_call(self, call_id: str) -> bool:
        """Tell whether a message of the transcript asks for a call of this id."""
        return call_id in self._asked

    def is_open(self, call_id: str) -> bool:
        """Return whether the call of this id has no answer yet."""
        return call_id in self._open

    def flaw(self, message: Message) -> str | None:
        """Return why *message* can never enter as things are, or None."""
        if self.has(message.id):
            return known(message)
        match message:
            case AssistantMessage(tool_calls=calls) if calls:
                return indistinct(calls, self._asked)
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
        return settled(message, context.value)

    async def _tell_persist(
        self, event: ObserveEvent[ToolCallPersist], copy: Message, scope: Scope
    ) -> None:
        assert isinstance(copy, ToolMessage)  # noqa: S101 - a copy keeps the role
        result = copy.tool_response or ToolResponse.from_text(copy.content)
        asker, call = self._asked.get(copy.tool_call_id, _NOBODY)
        facts = ToolCallPersist(
            session_key=self.session_id,
            agent_id=scope.agent_id,
            tool_name=copy.tool_name,
            tool_call_id=copy.tool_call_id,
            tool_input=call.arguments if result.parameters is None else result.parameters,
            tool_result=result if event is TOOL_CALL_PERSIST_AFTER else None,
            message_id=asker,
            tool_message_id=copy.id,
        )
        try:
            dispatch = partial(self._bus.observe, event, facts, scope=scope)
            await within_grace(self._bus, event, dispatch)
        except DeadlineError:
            logger.warning("an observer of %r did not end: %s", event.name, OVERDUE)


_turn: ContextVar[AppendTurn | None] = ContextVar("toolbus_append_turn", default=None)
"""The turn that this very context is inside of."""

_NOBODY = RequestedCall("", ToolCall(id="", name=""))


def store_error(session_id: str, error: Exception) -> ToolbusError:
    """Return *error*, which a write of messages has raised, as an error of ours."""
    if isinstance(error, ToolbusError):
        return error
    made = StoreError(session_id, f"{type(error).__name__}: {error}; nothing was appended")
    made.__cause__ = error
    return made
