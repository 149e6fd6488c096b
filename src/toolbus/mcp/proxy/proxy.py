"""The proxy: a bus with components in front of a server, for any number of client sessions."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from toolbus.bus.bus import EventBus
from toolbus.components.participants import Participant
from toolbus.events.catalogue import CATALOGUE, Scope
from toolbus.mcp.session.trace_context import SpanMaker
from toolbus.tools.toolset import Toolset

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self

    from toolbus.approvals import StoredApprovals
    from toolbus.components.components import AgentComponent
    from toolbus.mcp.session.client_approvals import ClientApprovals
    from toolbus.mcp.session.request_log import RequestLog
    from toolbus.store.protocol import Store


WAIT = 50.0
"""Seconds for which a call waits for an approval; many clients time out after a minute."""


class Proxy(Participant):
    """A bus between MCP clients and an MCP server; an async context manager.

    Args:
        components: the components whose handlers, adapters and tools apply to the calls.
        bus: the bus of the components; its other handlers apply too.
        store: the store for transcripts and ledgers; without one nothing is kept.
        timeout: the maximum seconds of a tool call; None for no limit.
        log: a log with a line for each request of a client.
        approvals: a factory that takes *store* and returns the approvals for guards' questions; by
            default a call waits 50 seconds, and its question can be answered for a day.
    """

    unseen_texts = "prompts, answers and the results of other tools than the server's"

    def __init__(
        self,
        components: Sequence[AgentComponent] = (),
        *,
        bus: EventBus | None = None,
        store: Store | None = None,
        timeout: float | None = None,
        log: RequestLog | None = None,
        approvals: Callable[..., StoredApprovals] | None = None,
    ) -> None:
        self.log = log
        self._make_approvals = approvals or _make_approvals
        self._own_bus = bus is None
        self.next_version: Proxy | None = None
        self.store: Store | None = None
        self.timeout = timeout
        self._versions: list[object] = []
        self._is_handled = False
        super().__init__(bus or EventBus(), Toolset(), Scope(agent_id="proxy"), tuple(components))
        self.makes_spans = any(isinstance(each, SpanMaker) for each in self.components)
        if store is not None:
            self.keep_in(store)

    async def __aenter__(self) -> Self:
        await self._install()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.bus.drain()
        await self._release()
        self._leave()
        if self._own_bus:
            await self.bus.aclose()

    def keep_in(self, store: Store) -> None:
        """Keep transcripts, ledgers and questions in *store*.

        Raises `RegistrationError` for an approval channel that cannot be used.
        """
        self.store = store
        self.client_approvals = self._approvals(self._make_approvals(store=store))

    @cached_property
    def client_approvals(self) -> ClientApprovals:
        """The approvals for calls of clients; without a store no question is kept."""
        return self._approvals(None)

    def _approvals(self, stored: StoredApprovals | None) -> ClientApprovals:
        from toolbus.mcp.session.client_approvals import ClientApprovals  # noqa: PLC0415 - not before a server starts

        return ClientApprovals(stored)

    def adopt_state(self, former: Proxy) -> None:
        """Take over the store of *former*, and its open questions."""
        self.store, self.client_approvals = former.store, former.client_approvals

    def _state_place(self) -> tuple[Store, str]:
        return self._states.memory if self.store is None else self.store, ""

    def discard_session(self, session_id: str) -> None:
        """Free the memory that components keep for an ended session."""
        self._states.memory.discard_session(session_id)

    @property
    def current(self) -> Proxy:
        """The proxy for new sessions: this one, or its latest successor."""
        proxy = self
        while proxy.next_version is not None:
            proxy = proxy.next_version
        return proxy

    @property
    def shares_bus(self) -> bool:
        """Whether the bus was passed in, and is not the proxy's own."""
        return not self._own_bus

    @property
    def is_filtering(self) -> bool:
        """Whether there is any handler, tool or store; if not, lines are forwarded as bytes."""
        # Cached: a relay asks for each request, and handlers change rarely.
        versions = [self.bus.version(event) for event in CATALOGUE]
        if versions != self._versions:
            self._versions = versions
            self._is_handled = any(self.bus.handlers(event) for event in CATALOGUE)
        return self._is_handled or self.store is not None or bool(self.tools)


def _make_approvals(*, store: Store) -> StoredApprovals:
    from toolbus.approvals import StoredApprovals  # noqa: PLC0415 - as above

    return StoredApprovals(store=store, wait=WAIT, host="proxy")
