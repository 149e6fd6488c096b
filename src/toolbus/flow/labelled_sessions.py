"""Labelled sessions: the views of all sessions of a host, opened from their records if need be."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal, Unpack

from msgspec.structs import replace

from toolbus.bus.dispatch.details import PartNote
from toolbus.components.call_facts import FactSources, PartialHost
from toolbus.components.components import LATE, AgentComponent
from toolbus.components.marks import Mark
from toolbus.components.participants import ComponentHost, Participant
from toolbus.components.state import replay_place
from toolbus.errors import AppendError
from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    MODEL_CALL_BEFORE,
    RUN_BEFORE,
    TOOL_CALL_AFTER,
)
from toolbus.flow.labels import UNSEEN
from toolbus.flow.message_labels import SYSTEM, MessageLabeller, NextMessage, texts_of
from toolbus.flow.session_views import NOTE, RecordedLabels, RootFacts, SessionView, SessionViews
from toolbus.messages.records import ToolMessage
from toolbus.tasks.loops import LoopLock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.subscriptions import HandlerOptions
    from toolbus.components.components import Host
    from toolbus.events.catalogue import Event, ModelRequest, RunStart, Scope, ToolCallOutcome
    from toolbus.flow.labels import Label
    from toolbus.flow.sources import FlowSettings
    from toolbus.messages.records import Message

logger = logging.getLogger("toolbus")

_LAST = 3 * LATE
"""Behind every other handler, so that the label is that of the final message."""
_LABELS: HandlerOptions = {"priority": _LAST, "incremental": True}

HIDDEN_TEXTS = "texts that its host does not show"
_ADDED = "a message that was added to a request"
_REFUSALS = frozenset({"denied", "withheld", "invalid_result"})
_UNANSWERED = {
    **dict.fromkeys(["timeout", "cancelled", "interrupted"], True),
    **dict.fromkeys(["denied", "unknown_tool", "invalid_arguments"], False),
}
"""The statuses of calls whose tools did not make the results; True if the tool may have run."""
_MOST_DOWNLOADS = 1_000


class LabelledSessions(AgentComponent):
    """Labels the messages of all sessions by *settings*, and keeps the views of the latest ones."""

    def __init__(self, settings: FlowSettings, *, enabled: bool | None = None) -> None:
        super().__init__(enabled=enabled)
        self.settings, self.views, self._lock = settings, SessionViews(), LoopLock()

    def subscribe(self, host: Host) -> None:
        """Label the messages on the bus of *host*, whatever the limits of `restrict`."""
        super().subscribe(host)
        self._labeller = MessageLabeller(self.settings, host, host.bus.shared(FactSources))
        self._unseen = host.unseen_texts if isinstance(host, PartialHost) else ""
        self._waits = False
        self._add(TOOL_CALL_AFTER, "on", self.note_outcome)
        if self._unseen or not isinstance(host, Participant):
            self._wait()
            return
        self._add(MESSAGE_APPEND_BEFORE, "guard", self.label_message, **_LABELS)
        self._add(RUN_BEFORE, "guard", self.check_transcript)
        self._add(MODEL_CALL_BEFORE, "guard", self.check_request, priority=_LAST)

    def _wait(self) -> None:
        # An async handler costs each append a task, so one is subscribed only if need be.
        self._waits = True
        self._add(MESSAGE_APPEND_BEFORE, "guard", self.label_with_effects, **_LABELS)

    async def install(self, agent: Host) -> None:
        """Open the session of *agent*."""
        await super().install(agent)
        if not self._waits:
            await self.view(agent.scope)
            if self._labeller.awaits:
                self._wait()

    def _add(
        self,
        event: Event,
        kind: Literal["on", "guard"],
        handler: Callable[..., Any],
        **options: Unpack[HandlerOptions],
    ) -> None:
        self.add_handler(Mark(event, kind, options), handler, restricted=False)

    def forget_session(self, session_id: str) -> None:
        """Forget the texts of a session: they are read again from the record."""
        self.views.drop(session_id)

    async def view(self, scope: Scope, *, is_new: bool = False) -> SessionView:
        """Return the view of the session of *scope*; nothing was appended to one that *is_new*."""
        view = self.views.get(scope.session_id)
        if view is None:
            async with self._lock.current():
                view = self.views.get(scope.session_id)
                if view is None:
                    opened = await self._opened(scope, is_new=is_new)
                    # The lock is that of one loop, and threads may have loops of their own.
                    view = self.views.put_first(scope.session_id, opened)
        return view

    def label_message(self, ctx: EventContext[Message]) -> None:
        """Label a message in its final form, and note the label in the ledger."""
        if ctx.window is not None:
            ctx.window.release(ctx.window.text)
        elif not self._waits:
            view, label = self.views.get(ctx.scope.session_id), UNSEEN
            if view is not None:  # Else it is read from the record later, with this label.
                label = self._add_label(ctx, view)
            ctx.note(lambda: [PartNote(NOTE, "ran", label.text)])

    async def label_with_effects(self, ctx: EventContext[Message]) -> None:
        """Do as `label_message`, after a component has read the effects of the call."""
        if ctx.window is not None:
            ctx.window.release(ctx.window.text)
            return
        view = await self.view(ctx.scope)
        downloads = view.root.downloads
        try:
            new = await self._labeller.with_effects(_next_message(ctx, view))
            label = self._add_label(ctx, view, new)
            if view.root.downloads != downloads:
                await self._keep_downloads(ctx.scope, view.root)
        except Exception as failure:  # noqa: BLE001 - no error trusts a text
            label = _unseen(ctx.value, view, type(failure).__name__)
        ctx.note(lambda: [PartNote(NOTE, "ran", label.text)])

    def _add_label(
        self, ctx: EventContext[Message], view: SessionView, new: NextMessage | None = None
    ) -> Label:
        """Add the message of *ctx* to *view*, and return its label."""
        if isinstance(ctx.value, ToolMessage) and not view.texts:
            # Its call was made in a part of the session that is not known.
            view.add_unseen(HIDDEN_TEXTS)
        try:
            new = new or _next_message(ctx, view)
            label = self._labeller.label(new)
            view.add(ctx.value, label, new.texts)
        except Exception as failure:  # noqa: BLE001 - as above
            label = _unseen(ctx.value, view, type(failure).__name__)
        self._tell_above(ctx.scope, view)
        return label

    def _tell_above(self, scope: Scope, view: SessionView) -> None:
        """Tell the session above the label of a text that the sub-agent of *scope* makes."""
        above = self.views.get(scope.parent_session_id) if scope.parent_session_id else None
        if above is not None:
            known = above.below.get(scope.parent_call_id, view.label)
            above.below[scope.parent_call_id] = known.joined([view.label])

    async def check_transcript(self, ctx: EventContext[RunStart]) -> None:
        """Read a session again to which another process has appended messages."""
        messages = ctx.original.messages
        view = await self.view(ctx.scope, is_new=not messages)
        if all(view.find(message.id) for message in messages):
            return
        former = {text.message_id: text.label for text in view.texts}
        async with self._lock.current():
            reopened = await self._opened(ctx.scope, former)
            reopened.below |= view.below
            reopened.unanswered |= view.unanswered
            self.views.put(ctx.scope.session_id, reopened)

    def check_request(self, ctx: EventContext[ModelRequest]) -> None:
        """Add the messages of a request that had no label: denials, and those of handlers."""
        view = self.views.get(ctx.scope.session_id)
        for message in ctx.value.messages if view is not None else ():
            if view is None or view.find(message.id):
                continue
            response = message.tool_response if isinstance(message, ToolMessage) else None
            if response and response.is_error and response.error_type in _REFUSALS:
                # A guard has refused the result before this component saw it.
                view.add(message, SYSTEM, ())
            else:
                view.add_unseen(_ADDED, message.id, (message.text,))

    def note_outcome(self, ctx: EventContext[ToolCallOutcome]) -> None:
        """Note a call whose tool did not make its result."""
        may_have_run = _UNANSWERED.get(ctx.value.status)
        view = None if may_have_run is None else self.views.get(ctx.scope.session_id)
        if view is not None and may_have_run is not None:
            view.unanswered[ctx.value.requested.id] = may_have_run

    async def release(self, scope: Scope, message_id: str, *, reason: str, by: str) -> Label:
        """Trust the message of a session from now on; return its label.

        The act is in the component's state and logged; see `releases`. Results that have
        quoted the message keep their labels. Raises `AppendError` for an unknown message.
        """
        view = await self.view(scope)
        text = view.find(message_id)
        if text is None or not (reason and by):
            problem = "a release names its reason and a person" if text else "no such message"
            raise AppendError(scope.session_id, f"message {message_id!r}: {problem}")
        act = {"by": by, "reason": reason, "former": text.label.text}

        def change(value: Any) -> Any:
            stored = dict(value or {})
            return {**stored, "released": {**stored.get("released", {}), message_id: act}}

        await self.state(scope, shared=True).update(change)
        logger.warning("%s released message %r (%s): %s", by, message_id, act["former"], reason)
        view.release(message_id)
        return text.label

    async def releases(self, scope: Scope) -> Mapping[str, Mapping[str, str]]:
        """Return the releases in the session of *scope*, by the message: by, reason, former."""
        stored = await self.state(scope, shared=True).read() or {}
        released: Mapping[str, Mapping[str, str]] = stored.get("released", {})
        return released

    async def _keep_downloads(self, scope: Scope, root: RootFacts) -> None:
        def change(value: Any) -> Any:
            stored = dict(value or {})
            paths = sorted(root.downloads.union(stored.get("downloads", ())))
            # Too many are one: then no file is trusted.
            return {**stored, "downloads": paths if len(paths) <= _MOST_DOWNLOADS else [""]}

        stored = await self.state(scope, shared=True).update(change)
        root.downloads = frozenset(stored["downloads"])

    async def _opened(
        self, scope: Scope, former: dict[str, Label] | None = None, *, is_new: bool = False
    ) -> SessionView:
        """Return a new view of the session of *scope*, with the messages that it has already."""
        host, above = self.host, await self._view_above(scope)
        task = None if above is None else above.label_before(scope.parent_call_id)
        view = SessionView(None if above is None else above.root, task)
        if above is not None and not scope.parent_call_id:
            # Its host does not show its task, which may have words of all that is in view above.
            view.include(above)
        is_replay = replay_place.get() is not None
        if self._unseen:
            view.add_unseen(self._unseen)
        if is_replay or not isinstance(host, ComponentHost):
            return view
        try:
            stored = await self.state(scope, shared=True).read() or {}
            view.root.downloads |= frozenset(stored.get("downloads", ()))
            messages, records = await host.recorded(scope.session_id)
            least = self.views.messages_before(scope.session_id)
            is_whole = bool(messages) or is_new or scope.session_id == host.scope.session_id
            if not self._unseen and (len(messages) < least or not is_whole):
                view.add_unseen(HIDDEN_TEXTS)
            recorded = RecordedLabels(records, former)
            for message in messages:
                await self._add_recorded(message, view, scope, recorded)
                if least and message.id not in recorded.labels:
                    _unseen(message, view, "it was evicted, and its ledger is not kept")
            for message_id in stored.get("released", ()):
                view.release(message_id)
        except Exception as error:  # noqa: BLE001 - as above
            logger.warning("session %r is not known: %s", scope.session_id, type(error).__name__)
            view.add_unseen(HIDDEN_TEXTS)
        return view

    async def _view_above(self, scope: Scope) -> SessionView | None:
        """Return the view of the session above that of *scope*; None without one in memory.

        It is read from the record for a host that does not tell the call between them.
        """
        parent_id = scope.parent_session_id
        above = self.views.get(parent_id) if parent_id else None
        if above is None and parent_id and not scope.parent_call_id:
            *higher, agent_id = scope.lineage
            facts = {"agent_id": agent_id, "session_id": parent_id, "lineage": tuple(higher)}
            above = await self._opened(replace(scope, **facts, parent_session_id=""))
            self.views.put(parent_id, above)
        return above

    async def _add_recorded(
        self, message: Message, view: SessionView, scope: Scope, recorded: RecordedLabels
    ) -> None:
        """Add a stored message with its label, joined with the recorded one."""
        noted, texts = recorded.labels.get(message.id), texts_of(message)
        if isinstance(message, ToolMessage):
            is_refusal = noted is not None and noted.speaker == SYSTEM.speaker
            if is_refusal or message.tool_call_id in recorded.refused_calls:
                view.unanswered[message.tool_call_id] = False
        if noted is None and message.id in recorded.refused_messages:
            view.add(message, SYSTEM, texts)
            return
        try:
            new = NextMessage(message, texts, view, scope, None, noted)
            label = self._labeller.label(await self._labeller.with_effects(new))
        except Exception as error:  # noqa: BLE001 - as above
            _unseen(message, view, type(error).__name__)
        else:
            view.add(message, label, texts)


def _next_message(ctx: EventContext[Message], view: SessionView) -> NextMessage:
    return NextMessage(ctx.value, texts_of(ctx.value), view, ctx.scope, ctx.tool)


def _unseen(message: Message, view: SessionView, reason: str) -> Label:
    """Add *message* to *view* without any trust, because for this *reason* it has no label."""
    logger.warning("message %r has no label: %s", message.id, reason)
    view.add(message, UNSEEN, (message.text,))
    return UNSEEN
