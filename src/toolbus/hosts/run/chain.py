"""The chain: a bus with components, past which the events of one host's sessions go."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from toolbus.approvals.stored import StoredApprovals
from toolbus.bus.bus import EventBus
from toolbus.bus.grace import GRACE
from toolbus.components.capabilities import Concealer
from toolbus.components.participants import Participant
from toolbus.errors import AppendError
from toolbus.events.catalogue import MODEL_CALL_DELTA, Scope
from toolbus.hosts.run.asking import HookAsking
from toolbus.hosts.run.event_log import EventLogs
from toolbus.hosts.run.event_on_bus import EventOnBus
from toolbus.hosts.run.hook_sessions import HookSessions
from toolbus.hosts.run.taken_calls import TakenCalls
from toolbus.hosts.run.written_files import FileKeeper, text_before
from toolbus.messages.ids import new_id
from toolbus.messages.records import UserMessage
from toolbus.tools.toolset import Toolset

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from toolbus.components.capabilities import PromptSkipper
    from toolbus.components.components import AgentComponent
    from toolbus.hosts.dialects.hook_events import HookAnswer, HookEvent
    from toolbus.hosts.dialects.host_dialect import HostDialect
    from toolbus.hosts.run.event_log import HookStore
    from toolbus.hosts.run.hook_sessions import HookSession, TakenCall
    from toolbus.messages.records import ToolCall
    from toolbus.store.protocol import Store
    from toolbus.tools import Tool

_ENQUEUED: ContextVar[list[UserMessage] | None] = ContextVar("toolbus_hook_enqueued", default=None)
_FILLED: ContextVar[Scope | None] = ContextVar("toolbus_hook_filled", default=None)
"""Who speaks in an event whose host takes arguments that its model does not read."""


@contextmanager
def _handling(enqueued: list[UserMessage], filled: Scope | None) -> Iterator[None]:
    """Let handlers enqueue in this block, and have calls filled of which *filled* speaks."""
    tokens = _ENQUEUED.set(enqueued), _FILLED.set(filled)
    try:
        yield
    finally:
        _ENQUEUED.reset(tokens[0])
        _FILLED.reset(tokens[1])


class HookChain(Participant):
    """What the events of the host *name* pass: *components* on a bus; an async context manager.

    Any number of events of any sessions may pass at the same time. What they leave is kept in
    *store*. What a host does not ask its person itself, all if it is not *host_asks*, *approvals*
    decide. *skippers* are those of the components that may spare the host's own prompts.
    """

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
        self._store, self._skippers = store, skippers
        self._approvals = approvals or StoredApprovals(store=store, host=name)
        self._host_asks = host_asks
        self._logs, self._sessions = EventLogs(store, self._conceal), HookSessions(store)
        super().__init__(EventBus(), Toolset(), Scope(agent_id=name), tuple(components))
        self._end_tap = self.bus.tap(self._logs.add, idle=False, without=(MODEL_CALL_DELTA,))

    async def __aenter__(self) -> Self:
        await self._install()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        # An observer without end must not keep a process, which a host waits for.
        await self.bus.drain(GRACE)
        await self._release()
        self._leave()
        await self.bus.aclose(GRACE)
        self._end_tap()
        await self._logs.close()

    def _state_place(self) -> tuple[Store, str]:
        return self._store, ""

    def enqueue(self, message: UserMessage | str) -> None:
        """Let the model read *message* with the event that is handled, or the next that can.

        Raises `AppendError` outside of an event's handlers, where nobody knows which session.
        """
        enqueued = _ENQUEUED.get()
        if enqueued is None:
            raise AppendError("", "no event is handled here, so it belongs to no session")
        if isinstance(message, str):
            message = UserMessage(id=new_id(), content=message)
        if not isinstance(message, UserMessage):
            reason = f"expected a user message or text, not `{type(message).__name__}`"
            raise AppendError("", reason)
        enqueued.append(message)

    def text_before(self, call: ToolCall, _offered: Tool | None = None) -> str | None:
        """Return the text of the file that *call* of the host's tool changes.

        It is None for another tool, and where the host's model would read what is filled in.
        """
        scope = _FILLED.get()
        return None if scope is None else text_before(call, scope)

    def _asking(self, root: str, known: Mapping[str, TakenCall]) -> HookAsking:
        taken = TakenCalls(self._store, self._sessions, root, known)
        return HookAsking(self._approvals, taken, self._host_asks)

    def _keepers(self, dialect: HostDialect) -> list[FileKeeper]:
        """Return the components that fill what a call writes, if the host's model reads none."""
        if dialect.facts.abilities["fill_arguments"] != "yes":
            return []
        return [each for each in self.components if isinstance(each, FileKeeper) and each.enabled]

    async def _conceal(self, text: str, scope: Scope) -> str:
        """Return *text* without what components take away, which it may quote."""
        for component in self.components:
            if not isinstance(component, Concealer):
                continue
            concealed = await component.concealed(text, scope)
            if concealed is None:
                return "(withheld, for it could not be examined)"
            text = concealed
        return text

    async def handle(
        self,
        event: HookEvent,
        dialect: HostDialect,
        event_id: str = "",
        session: HookSession | None = None,
    ) -> HookAnswer:
        """Let *event* pass the chain; return what the host is told of it.

        *event_id* is the same for an event that is handled once more, with `hook_client.AGAIN`
        behind it; *session* is the state of the event's session, if it was read already. Raises
        `StoreError` if what the event leaves cannot be kept, and what a handler with the policy
        "raise" raises.
        """
        await self.bus.catch_up()
        root = session_id_of(event, dialect.facts.name)
        session = session or await self._sessions.read(root)
        scope = scope_of(event, dialect.facts.name, "" if session is None else session.folder)
        waiting = () if session is None else session.context
        enqueued: list[UserMessage] = []
        keepers = self._keepers(dialect)
        filled = scope if keepers else None
        with _handling(enqueued, filled), self._logs.collecting(scope, event_id) as log:
            asking = self._asking(root, {} if session is None else session.taken)
            skippers = () if session is None or session.failed else self._skippers
            on_bus = EventOnBus(
                self.bus,
                self._store,
                event,
                dialect,
                log,
                asking=asking,
                skippers=skippers,
                keepers=keepers,
            )
            has_failed = True
            try:
                answer, remaining = await on_bus.answer(enqueued, waiting)
                has_failed = log.has_failure
            finally:
                if skippers and has_failed:
                    await self._sessions.note_failure(root)
            await self._logs.write(log)
        await on_bus.announce()
        if session is not None and remaining != waiting:
            await self._change_waiting(root, waiting, remaining)
        return answer

    async def _change_waiting(
        self, root: str, before: tuple[str, ...], after: tuple[str, ...]
    ) -> None:
        """Let the texts *after* wait in place of *before*; another event may have added some."""
        await self._sessions.change_context(
            root, lambda texts: (*after, *[each for each in texts if each not in before])
        )


def scope_of(event: HookEvent, host: str, project: str = "") -> Scope:
    """Return who speaks in *event*: the host's agent, or one that it has below that.

    *project* is where the session began.
    """
    root = session_id_of(event, host)
    if not event.agent:
        return Scope(agent_id=host, session_id=root, folder=event.folder, project=project)
    return Scope(
        agent_id=event.agent,
        session_id=f"{root}/{event.agent}",
        lineage=(host,),
        root_session_id=root,
        folder=event.folder,
        project=project,
    )


def session_id_of(event: HookEvent, host: str) -> str:
    """Return the id under which the session of *event* is kept."""
    return f"{host}:{event.session_id}"
