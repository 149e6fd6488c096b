"""The components of a bridge: on a bus, with a store, an approver and sessions."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from toolbus.agent.arguments import store_of
from toolbus.approvals import StoredApprovals
from toolbus.bridges.bridged_call import RUNNING, BridgeError
from toolbus.bridges.frameworks import WAYS_ROUND, framework
from toolbus.bridges.session import BridgeSession
from toolbus.bus.bus import EventBus
from toolbus.components.adapter_handlers import AdapterHandler, owner_of
from toolbus.components.call_facts import CallFactSource, SessionKeeper
from toolbus.components.needs import needs_of
from toolbus.components.participants import Participant
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE, Scope
from toolbus.messages.ids import new_id
from toolbus.tools.calls.approver import gate_of
from toolbus.tools.calls.gate import ResumeGate
from toolbus.tools.toolset import Toolset

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from os import PathLike
    from typing import Self

    from toolbus.bridges.frameworks import Ability, Delivery
    from toolbus.components.adapters import ToolAdapter
    from toolbus.components.components import AgentComponent
    from toolbus.store.protocol import Store
    from toolbus.tools.calls.approver import Approver
    from toolbus.tools.calls.gate import CallGate

_MAX_SESSIONS = 256
"""The most sessions that stay open; the one that was used longest ago is closed first."""

_STATE = "toolbus-bridge"
"""The name of a session's state; states of components are named by classes."""

_MAX_ID = 300
"""The most characters of a session's id."""

_CLOSED_AT_ONCE = 4
"""The most sessions that one call looks at: more than it opens, so that their number falls."""

logger = logging.getLogger("toolbus")


class BridgeHost(Participant):
    """The components of a bridge in the framework *name*.

    Args:
        name: the framework, a key of `FRAMEWORKS`.
        components: components and adapters, installed in this order.
        store: the store for transcripts and ledgers; without it nothing is kept. An address, as of
            an `Agent`'s, is opened, and closed with the bridge.
        approver: decides the questions of guards; by default the framework's own approval does. If
            neither can be asked, questions wait in *store*; without one the calls are denied.
        bus: the bus of the components; its other handlers apply too.
        agent_id: the name of the framework's agent in scopes and in the ledger.
        session_id: the session of calls without a conversation; by default a new session.
        partial: install components also if the framework lacks abilities that they need; a warning
            lists these.
        timeout: the maximum seconds of a tool call; None for no limit.
        idempotent: glob patterns of the tools that may run again, for handlers that return `Retry`.

    Raises `RegistrationError` for an option or a component that cannot work in the framework.
    """

    def __init__(
        self,
        name: str,
        components: Iterable[AgentComponent | ToolAdapter] = (),
        *,
        store: Store | str | PathLike[str] | None = None,
        approver: Approver | CallGate | None = None,
        bus: EventBus | None = None,
        agent_id: str = "agent",
        session_id: str = "",
        partial: bool = False,
        timeout: float | None = None,
        idempotent: Sequence[str] = (),
    ) -> None:
        _check_options(bus, timeout, idempotent)
        self.framework, self._owns_bus = framework(name), bus is None
        self.timeout, self.idempotent = timeout, tuple(idempotent)
        self.store = None if store is None else store_of(store)
        self._owns_store = self.store is not store
        # Without an approver, questions are put to the framework's user where it can pause.
        self.pauses = approver is None
        self.gate = self._gate(approver)
        self._sessions: OrderedDict[tuple[str, ...], BridgeSession] = OrderedDict()
        self._lock = threading.Lock()
        self._session_id, self.id = session_id or new_id(), new_id()
        self._installing = threading.Lock()
        self._is_closed = self._has_left = False
        super().__init__(bus or EventBus(), Toolset(), Scope(agent_id=agent_id), components)
        # Without a store no other process has the sessions.
        sharing = () if self.store is None else self.components
        self._keepers = [each for each in sharing if isinstance(each, SessionKeeper)]
        try:
            self._check_needs(partial=partial)
        except BaseException:
            self._leave()
            raise

    @property
    def delivers(self) -> Mapping[Ability, Delivery]:
        """The delivery of each ability in the framework."""
        return self.framework.delivers

    @property
    def unseen_texts(self) -> str:
        """The texts of the framework's models out of sight of components."""
        return self.framework.unseen_texts

    def session(self, key: str = "") -> BridgeSession:
        """Return the session of the framework's conversation *key*, "" for calls without one."""
        session_id = _bounded(f"{self.framework.extra}-{key}") if key else self._session_id
        return self._session(Scope(agent_id=self.scope.agent_id, session_id=session_id))

    def session_here(self, key: str, agent: str) -> BridgeSession:
        """Return the session of *agent*: below the call whose tool runs it, else that of *key*."""
        running = RUNNING.get()
        if running is None or running.session.host is not self:
            return self.session(key)
        return self.session_below(running.session, agent, running.call_id)

    def judges(self, role: str) -> bool:
        """Return whether a handler may change or deny the messages of *role*, "tool" excepted."""
        functions = self.bus.functions(MESSAGE_APPEND_BEFORE)
        return any(
            (not info.roles or role in info.roles)
            and not isinstance(function, AdapterHandler)
            and not isinstance(owner_of(function), CallFactSource)
            for info, function in zip(
                self.bus.handlers(MESSAGE_APPEND_BEFORE), functions, strict=True
            )
        )

    def session_below(self, above: BridgeSession, agent: str, call_id: str = "") -> BridgeSession:
        """Return the session of the sub-agent *agent*, run by the call *call_id* of *above*."""
        scope = above.scope
        below = Scope(
            agent_id=agent,
            session_id=_bounded("/".join(filter(None, [scope.session_id, call_id, agent]))),
            lineage=(*scope.lineage, scope.agent_id),
            root_session_id=scope.root_session_id or scope.session_id,
            parent_session_id=scope.session_id,
            parent_call_id=call_id,
            context=scope.context,
        )
        return self._session(below)

    async def ready(self) -> None:
        """Acquire the resources of the components once, before the first call."""
        while not (self._installed or self._is_closed):
            # Threads have loops of their own, so no lock of asyncio fits.
            if self._installing.acquire(blocking=False):
                try:
                    if not self._installed:
                        await self._install()
                finally:
                    self._installing.release()
            else:
                await asyncio.sleep(0.001)
        self.check_open()

    def check_open(self, *, is_end: bool = False) -> None:
        """Raise `BridgeError` if the bridge is closed: nothing passes without its handlers.

        The calls that run then have their ends while the handlers are there.
        """
        if self._has_left or (self._is_closed and not is_end):
            raise BridgeError(f"the bridge to {self.framework.title} is closed; make another one")

    async def close_idle(self) -> None:
        """Close sessions without a running call, down to the most that stay open."""
        idle: list[BridgeSession] = []
        with self._lock:
            for _ in range(min(len(self._sessions) - _MAX_SESSIONS, _CLOSED_AT_ONCE)):
                key, session = self._sessions.popitem(last=False)
                if session.is_busy:
                    self._sessions[key] = session
                else:
                    idle.append(session)
        for session in idle:
            await session.close()

    async def aclose(self) -> None:
        """Cancel the calls that run, write the last records, close the components, and leave."""
        self._is_closed = True
        for session in tuple(self._sessions.values()):
            await session.stop()
        self._has_left = True
        sessions, self._sessions = self._sessions, OrderedDict()
        await self.bus.drain()
        for session in sessions.values():
            await session.close()
        await self._release()
        self._installed = False  # Closed once, also if this is called again.
        self._leave()
        if self._owns_bus:
            await self.bus.aclose()
        if self.store is not None and self._owns_store:
            await self.store.close()

    async def claim(self, scope: Scope) -> None:
        """Have components read the session of *scope* again if another process used it meanwhile.

        The session's state names its latest host.
        """
        if self._keepers:
            state = self.state(_STATE, scope)
            if await state.read() != self.id:
                for keeper in self._keepers:
                    keeper.forget_session(scope.session_id)
                await state.update(lambda _: self.id)

    def discard_session(self, session_id: str) -> None:
        """Free the memory that components keep for an ended session."""
        self._states.memory.discard_session(session_id)

    def admit(self, session: BridgeSession) -> None:
        """Have *session* closed with the others, and found by its scope."""
        self._sessions[_key_of(session.scope)] = session

    def _session(self, scope: Scope) -> BridgeSession:
        key = _key_of(scope)
        with self._lock:
            session = self._sessions.pop(key, None) or BridgeSession(self, scope)
            self._sessions[key] = session
        return session

    def _state_place(self) -> tuple[Store, str]:
        return self._states.memory if self.store is None else self.store, ""

    def _gate(self, approver: Approver | CallGate | None) -> CallGate | None:
        store = self.store
        if approver is None:
            host = self.framework.extra
            return None if store is None else StoredApprovals(store=store, host=host)
        gate = gate_of(approver)
        return gate.for_host(store) if isinstance(gate, ResumeGate) and store is not None else gate

    def _check_needs(self, *, partial: bool) -> None:
        title = self.framework.title
        for component in self.components:
            missing = [*self._missing(component)]
            if missing and not partial:
                reason = f"{title} cannot deliver {', '.join(missing)}; `partial=True` goes without"
                raise RegistrationError(f"component {component.name!r}", reason)
            for ability in missing:
                effect = WAYS_ROUND[ability]
                logger.warning("component %r in %s: %s", component.name, title, effect)

    def _missing(self, component: AgentComponent) -> Iterator[Ability]:
        needed = {need for _, needs in needs_of(self.bus, component) for need in needs}
        for ability, delivery in self.delivers.items():
            # A question is stored where the framework has no approval of its own.
            if ability in needed and delivery == "no" and ability != "ask":
                yield ability


def _check_options(bus: Any, timeout: Any, idempotent: Any) -> None:
    """Raise `RegistrationError` for options that would fail, or be misread, in the first call."""
    if bus is not None and not isinstance(bus, EventBus):
        raise RegistrationError(f"bus {bus!r}", "expected an `EventBus`")
    if timeout is not None and not (type(timeout) in {int, float} and timeout > 0):
        raise RegistrationError(f"timeout {timeout!r}", "expected a positive number of seconds")
    if isinstance(idempotent, str):
        raise RegistrationError(f"idempotent {idempotent!r}", "expected a list of patterns")


def _key_of(scope: Scope) -> tuple[str, ...]:
    # Not the session's id alone: a key may look like the id of a sub-agent.
    return scope.session_id, scope.agent_id, scope.parent_session_id, scope.parent_call_id


def _bounded(session_id: str) -> str:
    """Return *session_id*, the end of a long one as its digest: keys may come from clients."""
    if len(session_id) <= _MAX_ID:
        return session_id
    digest = blake2b(session_id.encode(errors="surrogatepass"), digest_size=16).hexdigest()
    return f"{session_id[: _MAX_ID // 2]}-{digest}"


class FrameworkBridge:
    """The face of a bridge to the framework *name*: an async context manager.

    A class of a framework may be its second base. *components* and *options* are those of
    `BridgeHost`.
    """

    def __init__(
        self, name: str, components: Iterable[AgentComponent | ToolAdapter] = (), **options: Any
    ) -> None:
        self.host = BridgeHost(name, components, **options)

    @property
    def delivers(self) -> Mapping[Ability, Delivery]:
        """The delivery of each ability in the framework."""
        return self.host.delivers

    async def aclose(self) -> None:
        """Write the last records, and close the components."""
        await self.host.aclose()

    async def __aenter__(self) -> Self:
        await self.host.ready()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
