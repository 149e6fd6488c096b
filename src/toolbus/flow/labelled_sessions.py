"""Labelled sessions: the views of all sessions of a host, opened from their records if need be."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.bus.dispatch.details import PartNote
from toolbus.components.call_facts import FactSources, PartialHost
from toolbus.components.components import LATE, AgentComponent
from toolbus.components.marks import Mark
from toolbus.components.participants import ComponentHost
from toolbus.components.state import replay_place
from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    MODEL_CALL_BEFORE,
    RUN_BEFORE,
    TOOL_CALL_AFTER,
)
from toolbus.flow.message_labels import MessageLabeller
from toolbus.flow.session_views import NOTE, LabelledText, RecordedLabels, SessionView
from toolbus.messages.records import AssistantMessage, ToolMessage

if TYPE_CHECKING:
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.components.components import Host
    from toolbus.events.catalogue import ModelRequest, RunStart, Scope, ToolCallOutcome
    from toolbus.flow.sources import FlowSettings
    from toolbus.messages.records import Message

logger = logging.getLogger("toolbus")

_LAST = 3 * LATE
"""Behind every other handler, so that the label is that of the final message."""

HIDDEN_TEXTS = "texts that its host does not show"
_ADDED = "a message that was added to a request"


class LabelledSessions(AgentComponent):
    """Labels the messages of all sessions by *settings*, and keeps the views that were opened last.

    Views with more than *most_characters* together are evicted, and read again if need be.
    """

    most_characters = 50_000_000

    def __init__(self, settings: FlowSettings, *, enabled: bool | None = None) -> None:
        super().__init__(enabled=enabled)
        self.settings, self._lock = settings, threading.Lock()
        self.views: dict[str, SessionView] = {}

    def subscribe(self, host: Host) -> None:
        """Label the messages on the bus of *host*, whatever the limits of `restrict`."""
        super().subscribe(host)
        for subscription, _ in self._applying:
            subscription.cancel()  # Without adapters these cost each call three dispatches.
        self._labeller = MessageLabeller(self.settings, host, host.bus.shared(FactSources))
        self._unseen = host.unseen_texts if isinstance(host, PartialHost) else ""
        labels = Mark(MESSAGE_APPEND_BEFORE, "guard", {"priority": _LAST, "incremental": True})
        self.add_handler(labels, self.label_message, restricted=False)
        self.add_handler(Mark(TOOL_CALL_AFTER, "on", {}), self.note_outcome, restricted=False)
        self._checks_requests = False
        if not self._unseen:
            self.add_handler(Mark(RUN_BEFORE, "guard", {}), self.check_transcript)

    async def install(self, agent: Host) -> None:
        """Check requests from the first one on."""
        await super().install(agent)
        self._begin_checks(agent.scope)

    def forget_session(self, session_id: str) -> None:
        """Forget the texts of a session: they are read again from the record."""
        self.views.pop(session_id, None)

    async def view(self, scope: Scope, *, is_new: bool = False) -> SessionView:
        """Return the view of the session of *scope*; nothing was appended to one that *is_new*."""
        view = self.views.get(scope.session_id)
        if view is None:
            view = self._keep(scope.session_id, await self._opened(scope, is_new=is_new))
        return view

    def _keep(self, session_id: str, opened: SessionView) -> SessionView:
        """Keep *opened* unless another task was faster; return the view, and evict the oldest."""
        with self._lock:
            view = self.views.setdefault(session_id, opened)
            characters = sum([each.characters for each in self.views.values()])
            while characters > self.most_characters and len(self.views) > 1:
                characters -= self.views.pop(next(iter(self.views))).characters
        return view

    async def label_message(self, ctx: EventContext[Message]) -> None:
        """Label a message in its final form, and note the label in the ledger."""
        if ctx.window is not None:
            ctx.window.release(ctx.window.text)
            return
        message, view = ctx.value, await self.view(ctx.scope)
        if self._begin_checks(ctx.scope) and isinstance(message, AssistantMessage):
            view.add_text(LabelledText(source=_ADDED))  # Its request was not checked.
        if isinstance(message, ToolMessage) and not view.texts:
            # Its call was made in a part of the session that is not known.
            view.add_text(LabelledText(source=HIDDEN_TEXTS))
        label = await self._labeller.add(message, view, ctx.scope, ctx.tool)
        self._tell_above(ctx.scope, view)
        ctx.note(lambda: [PartNote(NOTE, "ran", label.text)])

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
        for message in messages:
            # A guard may have refused the result before this component saw it.
            is_refusal = isinstance(message, ToolMessage) and message.tool_call_id in view.outcomes
            if not (is_refusal or view.by_id.get(message.id)):
                self.forget_session(ctx.scope.session_id)
                view = await self.view(ctx.scope)
                break
        self._labeller.add_tools(view, ctx.scope)
        view.prompt = ctx.original.prompt  # A handler may have added words of strangers.

    def _begin_checks(self, scope: Scope) -> bool:
        """Check requests from now on if a handler may change them; return whether that is new.

        A check costs a record of the whole request. An agent above, on a bus of its own, may have
        handlers as well.
        """
        if self._checks_requests or self._unseen or self.host is None:
            return False
        is_below = scope.lineage and self.host.scope.agent_id not in scope.lineage
        self._checks_requests = is_below or self.host.bus.has_listeners(MODEL_CALL_BEFORE)
        if self._checks_requests:
            mark = Mark(MODEL_CALL_BEFORE, "guard", {"priority": _LAST})
            self.add_handler(mark, self.check_request, restricted=False)
        return self._checks_requests

    async def check_request(self, ctx: EventContext[ModelRequest]) -> None:
        """Add the messages that handlers have added to a request, and texts added to one."""
        messages = ctx.original.messages
        if ctx.value.messages is messages:
            return
        view = await self.view(ctx.scope)
        known = {line for each in messages for line in _lines_of(each)}
        lines = [line for each in ctx.value.messages for line in _lines_of(each)]
        text = "\n".join([line for line in lines if line not in known])
        if text and (number := f"added {text}") not in view.by_id:
            view.add_text(LabelledText(source=_ADDED, message_id=number, texts=(text,)))

    def note_outcome(self, ctx: EventContext[ToolCallOutcome]) -> None:
        """Note the end of a call: its tool may not have made its result."""
        if view := self.views.get(ctx.scope.session_id):
            view.outcomes[ctx.value.requested.id] = ctx.value.status

    async def _opened(self, scope: Scope, *, is_new: bool = False) -> SessionView:
        """Return a new view of the session of *scope*, with the messages that it has already."""
        host, above = self.host, await self._view_above(scope)
        task = None if above is None else above.label_before(scope.parent_call_id)
        view = SessionView(None if above is None else above.root, task)
        if above is not None and not scope.parent_call_id:
            # Its host does not show its task, which may have words of all that is in view above.
            for text in above.sources:
                view.add_text(text)
        if self._unseen:
            view.add_text(LabelledText(source=self._unseen))
        if replay_place.get() is None and isinstance(host, ComponentHost):
            is_new = is_new or scope.session_id == host.scope.session_id or bool(self._unseen)
            try:
                await self._add_recorded(view, scope, host, is_new=is_new)
            except Exception as error:  # noqa: BLE001 - no error trusts a text
                kind = type(error).__name__
                logger.warning("session %r is not known: %s", scope.session_id, kind)
                view.add_lost(HIDDEN_TEXTS)
        return view

    async def _add_recorded(
        self, view: SessionView, scope: Scope, host: ComponentHost, *, is_new: bool
    ) -> None:
        """Add the recorded messages of a session to *view*; unless it *is_new*, it has some."""
        messages, records = await host.recorded(scope.session_id)
        if not (messages or is_new):
            view.add_lost(HIDDEN_TEXTS)
        recorded = RecordedLabels(records)
        view.outcomes |= dict.fromkeys(recorded.refused, "denied")
        for message in messages:
            noted = recorded.labels.get(message.id)
            if isinstance(message, AssistantMessage) and noted and noted.lowers(view.label):
                # Its model had a text in view that is not in the record.
                number = f"view-{message.id}"
                view.add_text(LabelledText(source=HIDDEN_TEXTS, message_id=number, label=noted))
            await self._labeller.add(message, view, scope, None, noted)

    async def _view_above(self, scope: Scope) -> SessionView | None:
        """Return the view of the session above that of *scope*; None without one in memory.

        It is read from the record for a host that does not tell the call between them.
        """
        parent_id = scope.parent_session_id
        above = self.views.get(parent_id) if parent_id else None
        if above is None and parent_id and not scope.parent_call_id:
            *higher, agent_id = scope.lineage or ("",)
            facts = {"agent_id": agent_id, "session_id": parent_id, "lineage": tuple(higher)}
            above = await self._opened(replace(scope, **facts, parent_session_id=""))
            above = self._keep(parent_id, above)
        return above


def _lines_of(message: Message) -> list[str]:
    """Return the lines of *message*, of one without a text its id."""
    return message.text.splitlines() or [message.id]
