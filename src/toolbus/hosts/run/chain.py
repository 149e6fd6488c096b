"""The chain: a bus with components that judge the events of one host's sessions."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.approvals.stored import StoredApprovals
from toolbus.bus.bus import EventBus
from toolbus.bus.grace import GRACE
from toolbus.components.call_facts import SessionKeeper
from toolbus.components.capabilities import DisplayRedactor
from toolbus.components.participants import Participant
from toolbus.errors import AppendError
from toolbus.events.catalogue import MODEL_CALL_DELTA, Scope
from toolbus.hosts.run.call_on_bus import CallOnBus
from toolbus.hosts.run.event_log import EventLogs
from toolbus.hosts.run.event_on_bus import EventOnBus
from toolbus.hosts.run.hook_sessions import HookSessions
from toolbus.hosts.run.shared_sessions import SharedSessions
from toolbus.hosts.run.written_files import text_before
from toolbus.messages.ids import new_id
from toolbus.messages.records import UserMessage
from toolbus.tools.toolset import Toolset

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

    from toolbus.components.capabilities import PromptSkipper
    from toolbus.components.components import AgentComponent
    from toolbus.hosts.dialects.hook_events import HookAnswer, HookEvent
    from toolbus.hosts.dialects.host_dialect import HostDialect
    from toolbus.hosts.run.event_log import HookStore
    from toolbus.hosts.run.hook_sessions import HookSession
    from toolbus.messages.records import ToolCall
    from toolbus.store.protocol import Store
    from toolbus.tools import Tool


class HookChain(Participant):
    """The *components* on a bus that judge events of the host *name*; an async context manager.

    Any number of events of any sessions may pass at the same time; their messages and records go
    into *store*. *approvals* decide the questions that the host cannot ask its user, and all
    questions unless *host_asks*. *skippers* are the components that may skip the host's prompts.
    """

    unseen_texts = "texts that the host shows no hook, such as its instructions"

    def __init__(
        self,
        name: str,
        components: Sequence[AgentComponent],
        store: HookStore,
        approvals: StoredApprovals | None = None,
        *,
        host_asks: bool = True,
        skippers: Sequence[PromptSkipper] = (),
    ) -> None:
        self.store, self.skippers, self.host_asks = store, skippers, host_asks
        self.approvals = approvals or StoredApprovals(store=store, host=name)
        self.sessions = HookSessions(store)
        keepers = [each for each in components if isinstance(each, SessionKeeper)]
        self._shared = SharedSessions(store, keepers) if keepers else None
        self._logs = EventLogs(store, self._redact, self._shared)
        super().__init__(EventBus(), Toolset(), Scope(agent_id=name), tuple(components))
        self._end_tap = self.bus.tap(self._logs.add, idle=False, without=(MODEL_CALL_DELTA,))

    async def __aenter__(self) -> Self:
        await self._install()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        # An endless observer must not keep the process alive, for which the host waits.
        await self.bus.drain(GRACE)
        await self._release()
        self._leave()
        await self.bus.aclose(GRACE)
        self._end_tap()
        await self._logs.close()

    def _state_place(self) -> tuple[Store, str]:
        return self.store, ""

    def enqueue(self, message: UserMessage | str) -> None:
        """Queue *message* for the model: for the current event, or the next that can carry it.

        Raises `AppendError` outside of an event's handlers, where the session is unknown.
        """
        log = self._logs.current
        if log is None or log.is_written:
            raise AppendError("", "no event is being handled, so the session is unknown")
        if isinstance(message, str):
            message = UserMessage(id=new_id(), content=message)
        if not isinstance(message, UserMessage):
            reason = f"expected a user message or text, not `{type(message).__name__}`"
            raise AppendError("", reason)
        log.enqueued.append(message)

    def text_before(self, call: ToolCall, _offered: Tool | None = None) -> str | None:
        """Return the current text of the file that *call* of the host's tool changes.

        It is None for any other tool, and if the host's model would read restored values.
        """
        log = self._logs.current
        return text_before(call, log.scope) if log is not None and log.fills else None

    async def _redact(self, text: str, scope: Scope) -> str:
        """Return *text* without the secrets that components redact."""
        for component in self.components:
            if not isinstance(component, DisplayRedactor):
                continue
            redacted = await component.for_display(text, scope)
            if redacted is None:
                return "(withheld: it could not be examined)"
            text = redacted
        return text

    async def handle(
        self, event: HookEvent, dialect: HostDialect, session: HookSession, event_id: str = ""
    ) -> HookAnswer:
        """Send *event* of *session* through the chain; return the answer to the host.

        A retry of an event has the same *event_id*, followed by `hook_client.AGAIN`. Raises
        `StoreError` if the event cannot be stored, and errors of handlers with the policy "raise".
        """
        await self.bus.catch_up()
        root = session_id_of(event)
        kind = EventOnBus if event.call is None else CallOnBus
        scope = scope_of(event, session.folder)
        shared = self._shared
        async with shared.entered(*{root, scope.session_id}) if shared else nullcontext():
            with self._logs.collecting(scope, event_id) as log:
                on_bus = kind(self, event, dialect, session, log)
                has_failed = True
                try:
                    answer, waiting = await on_bus.answer(session.context)
                    has_failed = log.has_failure
                finally:
                    if has_failed and self.skippers and not session.failed:
                        await self.sessions.update(root, lambda known: replace(known, failed=True))
                await self._logs.write(log)
        await on_bus.announce()
        if waiting != session.context:
            # Another event of the session may have added some.
            before = session.context

            def changed(known: HookSession) -> HookSession:
                return known.with_context(
                    [*waiting, *[each for each in known.context if each not in before]]
                )

            await self.sessions.update(root, changed)
        return answer


def scope_of(event: HookEvent, project: str = "") -> Scope:
    """Return the scope of *event*: the host's agent, or one of its sub-agents.

    *project* is the folder in which the session began.
    """
    root = session_id_of(event)
    if not event.agent:
        return Scope(agent_id=event.host, session_id=root, folder=event.folder, project=project)
    return Scope(
        agent_id=event.agent,
        session_id=f"{root}/{event.agent}",
        lineage=(event.host,),
        root_session_id=root,
        parent_session_id=root,
        folder=event.folder,
        project=project,
    )


def session_id_of(event: HookEvent) -> str:
    """Return the id under which the session of *event* is kept."""
    return f"{event.host}:{event.session_id}"
