"""Labelled sessions: the views of all sessions of a host, opened from their records if need be."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.bus.dispatch.details import PartNote
from toolbus.components.components import LATE
from toolbus.components.marks import Mark
from toolbus.components.participants import ComponentHost
from toolbus.components.state import replay_place
from toolbus.errors import AppendError
from toolbus.events.catalogue import (
    MESSAGE_APPEND_AFTER,
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
    from collections.abc import Callable

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.subscriptions import HandlerOptions
    from toolbus.components.call_facts import FactSources
    from toolbus.components.components import Host
    from toolbus.components.state import State
    from toolbus.events.catalogue import ModelRequest, RunStart, Scope, ToolCallOutcome
    from toolbus.flow.labels import Label
    from toolbus.flow.sources import FlowSettings
    from toolbus.messages.records import Message

logger = logging.getLogger("toolbus")

_LAST: HandlerOptions = {"priority": 3 * LATE}
"""Behind every other handler, so that the label is that of the final message."""

HIDDEN = "texts that its host does not show"
_ADDED = "a message that was added to a request"
_REFUSALS = frozenset({"denied", "withheld", "invalid_result"})
_MAY_HAVE_RUN = {"timeout": True, "cancelled": True, "interrupted": True}
_NEVER_RAN = {"denied": False, "unknown_tool": False, "invalid_arguments": False}
_UNANSWERED = _MAY_HAVE_RUN | _NEVER_RAN
_MOST_DOWNLOADS = 1_000


class Release(NamedTuple):
    """A recorded act: the label of a message, *former* until then, was lowered to trusted."""

    message_id: str
    by: str
    reason: str
    former: str


class LabelledSessions:
    """The views of the sessions of *host*, with labels by *settings* and facts from *sources*.

    *state* returns the state of a session with its releases and downloads. The handlers are not
    methods of the component, because they need no ability of its host to change messages.
    """

    def __init__(
        self,
        host: Host,
        settings: FlowSettings,
        sources: FactSources,
        state: Callable[[Scope], State],
    ) -> None:
        self._host, self._state = host, state
        self._labeller = MessageLabeller(settings, host, sources)
        self.views, self._lock = SessionViews(), LoopLock()
        self._sees_all = isinstance(host, ComponentHost) and host.sees_every_message

    @property
    def handlers(self) -> list[tuple[Mark, Callable[..., Any]]]:
        """The handlers of the component, with their marks."""
        marks: list[tuple[Mark, Callable[..., Any]]] = [
            (Mark(MESSAGE_APPEND_BEFORE, "guard", _LAST | {"incremental": True}), self.label),
            (Mark(MESSAGE_APPEND_AFTER, "on", {"roles": "tool"}), self.note_refusal),
            (Mark(TOOL_CALL_AFTER, "on", {}), self.note_outcome),
        ]
        if self._sees_all:
            marks.append((Mark(RUN_BEFORE, "guard", {}), self.check_transcript))
            marks.append((Mark(MODEL_CALL_BEFORE, "guard", _LAST), self.check_request))
        return marks

    async def view(self, scope: Scope) -> SessionView:
        """Return the view of the session of *scope*."""
        view = self.views.get(scope.session_id)
        if view is None:
            async with self._lock.current():
                view = self.views.get(scope.session_id)
                if view is None:
                    view = await self._opened(scope)
                    self.views.put(scope.session_id, view)
        return view

    async def label(self, ctx: EventContext[Message]) -> None:
        """Label a message in its final form, and note the label in the ledger."""
        if ctx.window is not None:
            ctx.window.release(ctx.window.text)
            return
        message, scope = ctx.value, ctx.scope
        view = await self.view(scope)
        if isinstance(message, ToolMessage) and not view.texts:
            # Its call was made in a part of the session that is not known.
            view.add_unseen(HIDDEN)
        new = NextMessage(message, texts_of(message), view, scope, ctx.tool)
        downloads = view.root.downloads
        try:
            label = await self._labeller.label(new)
            if view.root.downloads != downloads:
                await self._keep_downloads(scope, view.root)
        except Exception as error:  # noqa: BLE001 - no error trusts a text
            logger.warning("message %r has no label: %s", message.id, type(error).__name__)
            label = UNSEEN
        view.add(message, label, new.texts)
        self._tell_above(scope, view)
        ctx.note(lambda: [PartNote(NOTE, "ran", label.text)])

    def _tell_above(self, scope: Scope, view: SessionView) -> None:
        """Tell the session above the label of a text that the sub-agent of *scope* makes."""
        above = self.views.get(scope.parent_session_id) if scope.parent_session_id else None
        if above is not None:
            known = above.below.get(scope.parent_call_id, view.label)
            above.below[scope.parent_call_id] = known.joined([view.label])

    async def check_transcript(self, ctx: EventContext[RunStart]) -> None:
        """Read a session again to which another process has appended messages."""
        view = await self.view(ctx.scope)
        if all(view.has(message.id) for message in ctx.original.messages):
            return
        former = {text.message_id: text.label for text in view.texts}
        async with self._lock.current():
            reopened = await self._opened(ctx.scope, former)
            reopened.below |= view.below
            reopened.unanswered |= view.unanswered
            self.views.put(ctx.scope.session_id, reopened)

    async def check_request(self, ctx: EventContext[ModelRequest]) -> None:
        """Add the messages of a request that no append showed: a handler has added them."""
        view = await self.view(ctx.scope)
        for message in ctx.value.messages:
            if not view.has(message.id):
                view.add_unseen(_ADDED, message.id, (message.text,))

    def note_outcome(self, ctx: EventContext[ToolCallOutcome]) -> None:
        """Note a call whose tool did not make its result."""
        may_have_run = _UNANSWERED.get(ctx.value.status)
        view = None if may_have_run is None else self.views.get(ctx.scope.session_id)
        if view is not None and may_have_run is not None:
            view.unanswered[ctx.value.requested.id] = may_have_run

    def note_refusal(self, ctx: EventContext[Message]) -> None:
        """Note the denial in place of a result that a guard refused, and no label was made for."""
        message, view = ctx.value, self.views.get(ctx.scope.session_id)
        response = message.tool_response if isinstance(message, ToolMessage) else None
        if view is None or response is None or view.has(message.id):
            return
        if response.is_error and response.error_type in _REFUSALS:
            view.add(message, SYSTEM, ())
        else:
            view.add(message, UNSEEN, (message.text,))

    async def release(self, scope: Scope, message_id: str, reason: str, by: str) -> Label:
        """Trust a message from now on, and record that; return its label. Raises `AppendError`."""
        view = await self.view(scope)
        text = view.find(message_id)
        if text is None or not (reason and by):
            problem = "a release names its reason and a person" if text else "no such message"
            raise AppendError(scope.session_id, f"message {message_id!r}: {problem}")
        act = {"by": by, "reason": reason, "former": text.label.text}

        def change(value: Any) -> Any:
            kept = dict(value or {})
            return {**kept, "released": {**kept.get("released", {}), message_id: act}}

        await self._state(scope).update(change)
        logger.warning(
            "%s released message %r of session %r (%s): %s",
            *(by, message_id, scope.session_id, act["former"], reason),
        )
        view.release(message_id)
        self._tell_above(scope, view)
        return text.label

    async def releases(self, scope: Scope) -> tuple[Release, ...]:
        """Return the releases of messages in the session, in order."""
        kept = await self._state(scope).read() or {}
        return tuple(
            [
                Release(message_id, act["by"], act["reason"], act["former"])
                for message_id, act in kept.get("released", {}).items()
            ]
        )

    async def _keep_downloads(self, scope: Scope, root: RootFacts) -> None:
        def change(value: Any) -> Any:
            kept = dict(value or {})
            paths = sorted(root.downloads.union(kept.get("downloads", ())))
            # Too many are one: then no file is trusted.
            return {**kept, "downloads": paths if len(paths) <= _MOST_DOWNLOADS else ["/"]}

        kept = await self._state(scope).update(change)
        root.downloads = frozenset(kept["downloads"])

    async def _opened(self, scope: Scope, former: dict[str, Label] | None = None) -> SessionView:
        """Return a new view of the session of *scope*, with the messages that it has already."""
        host, above = self._host, None
        if scope.parent_session_id:
            above = self.views.get(scope.parent_session_id)
        task = None if above is None else above.label_before(scope.parent_call_id)
        view = SessionView(None if above is None else above.root, task)
        is_replay = replay_place.get() is not None
        if not (is_replay or self._sees_all):
            view.add_unseen(HIDDEN)
        if is_replay or not isinstance(host, ComponentHost):
            return view
        try:
            kept = await self._state(scope).read() or {}
            view.root.downloads |= frozenset(kept.get("downloads", ()))
            messages, records = await host.recorded(scope.session_id)
            least = self.views.messages_before(scope.session_id)
            if len(messages) < least:
                view.add_unseen(HIDDEN)
            recorded = RecordedLabels(records, former)
            for message in messages:
                await self._add_recorded(message, view, scope, recorded, is_evicted=least > 0)
            for message_id in kept.get("released", ()):
                view.release(message_id)
        except Exception as error:  # noqa: BLE001 - as above
            logger.warning("session %r is not known: %s", scope.session_id, type(error).__name__)
            view.add_unseen(HIDDEN)
        return view

    async def _add_recorded(
        self,
        message: Message,
        view: SessionView,
        scope: Scope,
        recorded: RecordedLabels,
        *,
        is_evicted: bool,
    ) -> None:
        noted, texts = recorded.labels.get(message.id), texts_of(message)
        if isinstance(message, ToolMessage) and message.tool_call_id in recorded.refused_calls:
            view.unanswered[message.tool_call_id] = False
        if noted is None and message.id in recorded.refused_messages:
            label = SYSTEM
        else:
            label = await self._labeller.label(
                NextMessage(message, texts, view, scope, None, noted)
            )
        if is_evicted and noted is None:
            label = label.joined([UNSEEN])
        view.add(message, label, texts)
