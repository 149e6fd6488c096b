"""Streaming: the pieces of a run, and the decision when to show them, hold them, or void them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import AbstractContextManager
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from toolbus.bus.dispatch.contexts import EventContext
from toolbus.bus.dispatch.details import AnswerWindow
from toolbus.bus.ledger.records import HandlerEntry
from toolbus.components.adapter_handlers import AdapterHandler, owner_of
from toolbus.components.components import AgentComponent
from toolbus.errors import MessageDenied
from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    TOOL_CALL_BEFORE,
    Deny,
    ModelDelta,
    TurnEnd,
)
from toolbus.events.subjects import matches
from toolbus.messages.reasoning import ReasoningPart
from toolbus.messages.records import AssistantMessage, Message, ToolCall, ToolMessage, encode
from toolbus.tasks.shield import forget, shield_until_done
from toolbus.transcript.admission import admit

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence

    from toolbus.bus.bus import EventBus
    from toolbus.bus.dispatch.bindings import Binding
    from toolbus.events.catalogue import RunResult, Scope, ToolCallOutcome

TextKind: TypeAlias = Literal["text", "reasoning"]
Piece: TypeAlias = ModelDelta | ToolMessage | TurnEnd

CHANGED = "a handler subscribed in mid-answer changed text that was already shown"
"""The reason to deny an answer that contradicts its shown pieces."""

logger = logging.getLogger("toolbus")


async def stream_of(
    start: Callable[[Callable[[Piece], None]], Coroutine[Any, Any, RunResult[Any]]],
) -> AsyncGenerator[Piece | RunResult[Any], None]:
    """Run the coroutine of *start*; yield the pieces that it shows, and at the end the result."""
    pieces: asyncio.Queue[Piece | None] = asyncio.Queue()
    work = asyncio.ensure_future(start(pieces.put_nowait))
    work.add_done_callback(lambda _: pieces.put_nowait(None))
    try:
        while (item := await pieces.get()) is not None:
            yield item
        yield work.result()
    finally:
        await shield_until_done(partial(_stop, work))


async def _stop(work: asyncio.Future[RunResult[Any]]) -> None:
    work.cancel()
    await asyncio.wait({work})
    forget(work)


class Increments:
    """The text of one answer that each incremental handler has released so far."""

    def __init__(self, bus: EventBus, scope: Scope) -> None:
        self._bus, self._scope = bus, scope
        self._released: dict[tuple[Binding, str], str] = {}

    async def judge(self, bindings: Sequence[Binding], kind: TextKind, text: str) -> str | None:
        """Return the part of *text* that may be shown; None: none until the answer is complete.

        Each handler gets the text that the handler before released. Raises `MessageDenied` as
        soon as a handler denies it.
        """
        for binding in bindings:
            released = self._released.get((binding, kind), "")
            window = AnswerWindow(text, kind=kind, released=released)
            message = _message(kind, text)
            try:
                verdict = await self._call(binding, message, window)
            except Exception as error:  # noqa: BLE001 - the complete answer will be judged anyway
                name = type(error).__name__
                logger.warning("handler %r failed in mid-answer (%s)", binding.name, name)
                return None
            if isinstance(verdict, Deny) and not self._bus.dry_run:
                # The denied text enters the ledger like any denied message.
                await admit(self._bus, message, self._scope)
                raise MessageDenied(message.role, message.id, verdict.reason)
            if verdict is not None or not _is_valid(window, binding):
                return None
            self._released[binding, kind] = text = window.output
        return text

    def entries(self) -> tuple[HandlerEntry, ...]:
        """Return ledger entries with the length each handler has released, of both kinds."""
        counts: Counter[Binding] = Counter()
        for (binding, _), released in self._released.items():
            counts[binding] += len(released)
        return tuple(
            [
                HandlerEntry(
                    name=binding.name,
                    priority=binding.priority,
                    kind=binding.kind,
                    status="ran",
                    reason=f"released {count} characters",
                )
                for binding, count in counts.items()
                if count
            ]
        )

    async def _call(
        self, binding: Binding, message: AssistantMessage, window: AnswerWindow
    ) -> object:
        context = EventContext(MESSAGE_APPEND_BEFORE, message, scope=self._scope, window=window)
        if not binding.runs_for(context):
            return None  # It may apply to the complete answer, so nothing more is released.
        result: object = binding.function(context)
        return await result if isawaitable(result) else result


def _message(kind: TextKind, text: str) -> AssistantMessage:
    if kind == "reasoning":
        return AssistantMessage(reasoning=(ReasoningPart(text),))
    return AssistantMessage(content=text)


def _is_valid(window: AnswerWindow, binding: Binding) -> bool:
    """Return whether released text stays released, and a guard changed nothing."""
    output = window.output
    if not isinstance(output, str) or not output.startswith(window.released):
        return False
    return binding.kind != "guard" or window.text.startswith(output)


class HeldCall(NamedTuple):
    """A call whose arguments wait for a verdict: its position, and its arguments shown so far."""

    position: int
    shown: str


class StreamedAnswer(AbstractContextManager["StreamedAnswer"]):
    """One answer whose pieces go to *show*, as soon as no handler can change or deny them.

    Text and reasoning pass at once if no handler of `MESSAGE_APPEND_BEFORE` judges answers. If all
    such handlers are `incremental`, they pass as far as released; else they are held, and shown
    from the appended message. So are calls; the arguments of a call are shown with its answer
    while a handler of `TOOL_CALL_BEFORE` judges its tool. Handlers subscribed in mid-answer count
    at once; held text stays held.

    At the end of its `with` block, shown pieces of an answer that was not appended are void,
    unless the run was cancelled.
    """

    def __init__(self, bus: EventBus, scope: Scope, show: Callable[[ModelDelta], None]) -> None:
        self._bus, self._scope, self._show = bus, scope, show
        self._version: object = None
        self._disabled: tuple[AgentComponent, ...] = ()
        self._judges: tuple[Binding, ...] = ()
        self._held = self._is_appended = False
        self.refusal: MessageDenied | None = None
        self._waiting: dict[str, HeldCall] = {}
        self._restart()

    def _restart(self) -> None:
        self._shown: dict[tuple[str, int], list[str]] = {}
        self._texts: dict[str, str] = {}
        self._held_calls: set[int] = set()
        self._was_fed = False
        self.increments = Increments(self._bus, self._scope)

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        # The canceller of a run knows that its pieces are void.
        if not self._is_appended and not isinstance(error, asyncio.CancelledError):
            self.void()

    def void(self) -> None:
        """Void all pieces shown so far; another answer may begin."""
        if self._shown:
            self._show(ModelDelta(kind="void"))
        self._restart()

    def feed(self, delta: ModelDelta) -> Awaitable[None] | None:
        """Show *delta*, or hold it; return an awaitable if handlers judge it in mid-answer."""
        self._was_fed = True
        self._update_judges()
        if delta.kind == "void":
            self.void()
        elif delta.kind == "tool_call":
            self._feed_call(delta)
        elif self._judges and not self._held:
            return self._release_more(delta.kind, delta.text)
        elif not self._held:
            self._show_piece(delta)
        return None

    def _feed_call(self, delta: ModelDelta) -> None:
        if delta.index not in self._held_calls and self._is_judged(delta.name):
            self._held_calls.add(delta.index)
        if not (self._held or self._judges or delta.index in self._held_calls):
            self._show_piece(delta)

    async def _release_more(self, kind: TextKind, text: str) -> None:
        """Show the text that the handlers release with *text* added to the answer."""
        shown = self._text(kind)
        whole = self._texts[kind] = self._texts.get(kind, shown) + text
        try:
            released = await self.increments.judge(self._judges, kind, whole)
        except MessageDenied as error:
            self.refusal = error
            raise
        # A handler subscribed in mid-answer may have released less than was shown already.
        if released is None or not (released.startswith(shown) or shown.startswith(released)):
            self._held = True
        elif len(released) > len(shown):
            self._show_piece(ModelDelta(kind=kind, text=released[len(shown) :]))

    def objection(self, before: AssistantMessage, after: Message) -> str | None:
        """Return the reason why *after*, made of *before* by handlers, cannot be the answer."""
        if not isinstance(after, AssistantMessage):
            return None
        # If a model's pieces differ from its answer, the answer counts, unless pieces were judged.
        checked: list[str | None] = []
        if self._judges or after.content != before.content:
            checked.append(_rest(after.content, self._text("text")))
        if self._judges or after.reasoning_text != before.reasoning_text:
            checked.append(_rest_of_reasoning(after.reasoning_text, self._text("reasoning")))
        if None in checked:
            return CHANGED
        has_calls = any(kind == "tool_call" for kind, _ in self._shown)
        return CHANGED if has_calls and after.tool_calls != before.tool_calls else None

    def finish(self, message: AssistantMessage) -> None:
        """Show the held rest of the answer, which was appended as *message*."""
        self._is_appended = True
        self._update_judges()
        is_late = self._held or bool(self._judges) or not self._was_fed
        if is_late:
            if rest := _rest_of_reasoning(message.reasoning_text, self._text("reasoning")):
                self._show_piece(ModelDelta(kind="reasoning", text=rest))
            if rest := _rest(message.content, self._text("text")):
                self._show_piece(ModelDelta(kind="text", text=rest))
        for index, call in enumerate(message.tool_calls):
            shown = self._text("tool_call", index)
            if index in self._held_calls or self._is_judged(call.name):
                self._waiting[call.id] = HeldCall(index, shown)
                if not shown:
                    # The name is in the transcript already; the arguments are still undecided.
                    self._show_piece(_delta_of(index, "", call))
            elif is_late and (rest := _rest(_arguments(call), shown)):
                self._show_piece(_delta_of(index, rest, call))

    def finish_call(self, outcome: ToolCallOutcome, message: Message) -> None:
        """Show the held arguments of a call that *message* answers, if the call was allowed."""
        held = self._waiting.pop(outcome.requested.id, None)
        is_allowed = outcome.executed is not None or outcome.status == "answered"
        if held is None or not is_allowed or not isinstance(message, ToolMessage):
            return
        # The arguments of the message have passed all handlers.
        parameters = None if message.tool_response is None else message.tool_response.parameters
        if parameters is None:
            return
        call = ToolCall(id=message.tool_call_id, name=message.tool_name, arguments=parameters)
        if rest := _rest(_arguments(call), held.shown):
            self._show_piece(_delta_of(held.position, rest, call))

    def _show_piece(self, delta: ModelDelta) -> None:
        self._shown.setdefault((delta.kind, delta.index), []).append(delta.text)
        self._show(delta)

    def _text(self, kind: str, index: int = 0) -> str:
        shown = self._shown.get((kind, index), [])
        shown[:] = ["".join(shown)]  # So that no piece is joined twice.
        return shown[0]

    def _update_judges(self) -> None:
        """Hold all later pieces if a handler, perhaps a new one, judges the complete answer."""
        if self._held:
            return
        version = self._bus.version(MESSAGE_APPEND_BEFORE)
        is_awake = self._disabled and any(owner.enabled for owner in self._disabled)
        if version is self._version and not is_awake:
            return
        self._version = version
        handlers = self._bus.bindings_for(MESSAGE_APPEND_BEFORE, self._scope)
        concerned = [binding for binding in handlers if _judges_answers(binding)]
        owners = {binding: _component_of(binding) for binding in concerned}
        disabled = [owner for owner in owners.values() if owner is not None and not owner.enabled]
        judges = [binding for binding in concerned if owners[binding] not in disabled]
        # A handler cancelled in mid-answer saw only the beginning, and no handler sees the rest.
        has_all = set(self._judges) <= set(judges)
        self._held = not (has_all and all(binding.incremental for binding in judges))
        self._disabled, self._judges = tuple(disabled), tuple(judges)

    def _is_judged(self, name: str) -> bool:
        """Return whether a handler judges calls of the tool *name*, "" if unknown."""
        bindings = self._bus.bindings_for(TOOL_CALL_BEFORE, self._scope)
        return any(_judges_call(binding, name) for binding in bindings)


def _judges_answers(binding: Binding) -> bool:
    """Return whether the handler of *binding* runs for messages of a model."""
    if binding.ended or binding.tools or (binding.roles and "assistant" not in binding.roles):
        return False
    return not isinstance(binding.handler, AdapterHandler)


def _judges_call(binding: Binding, name: str) -> bool:
    # A handler that renames the call applies to its current name.
    if binding.ended or (name and binding.tools and not matches(binding.tools, name)):
        return False
    owner = _component_of(binding)
    if owner is not None and not owner.enabled:
        return False
    handler = binding.handler
    return not isinstance(handler, AdapterHandler) or bool(handler.methods())


def _component_of(binding: Binding) -> AgentComponent | None:
    """Return the component with the handler of *binding* as a method, if any."""
    owner = owner_of(binding.handler)
    return owner if isinstance(owner, AgentComponent) else None


def _rest(text: str, shown: str) -> str | None:
    """Return the part of *text* not shown so far; None if it begins differently."""
    return text[len(shown) :] if text.startswith(shown) else None


def _rest_of_reasoning(text: str, shown: str) -> str | None:
    """Return the same for reasoning, whose parts are on separate lines only in the message."""
    if text.startswith(shown):
        return text[len(shown) :]
    characters = shown.replace("\n", "")
    places = [place for place, character in enumerate(text) if character != "\n"][: len(characters)]
    if characters != "".join([text[place] for place in places]):
        return None
    return text[places[-1] + 1 :] if places else text


def _delta_of(index: int, text: str, call: ToolCall) -> ModelDelta:
    return ModelDelta(kind="tool_call", text=text, index=index, name=call.name, id=call.id)


def _arguments(call: ToolCall) -> str:
    return encode(call.arguments).decode() if call.raw is None else call.raw
