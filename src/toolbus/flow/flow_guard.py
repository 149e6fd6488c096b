"""The flow component: labels for the texts of a session, and facts about calls for rules."""

from __future__ import annotations

# A configuration reads the hints of the constructor while the program runs.
from collections.abc import Mapping, Sequence  # noqa: TC003
from functools import partial
from typing import TYPE_CHECKING

from toolbus.components.call_facts import FactSources
from toolbus.components.components import AgentComponent
from toolbus.flow.labelled_sessions import LabelledSessions
from toolbus.flow.sources import FlowSettings
from toolbus.messages.immutable import EMPTY

if TYPE_CHECKING:
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.components.call_facts import CallFacts
    from toolbus.components.components import Host
    from toolbus.events.catalogue import Scope
    from toolbus.flow.labelled_sessions import Release
    from toolbus.flow.labels import Label
    from toolbus.messages.records import ToolCall


class FlowGuard(AgentComponent):
    """Labels the texts of sessions, and tells rules where the words of a call came from.

    Args:
        trusted_tools: glob patterns of the tools whose results are trusted.
        trusted_hosts: glob patterns of the hosts whose texts are trusted.
        trusted_paths: glob patterns of the files whose texts are trusted, by default all of the
            project outside of folders for dependencies.
        private_tools: glob patterns of the tools whose results are private.
        private_paths: glob patterns of the files whose texts are private.
        sinks: the sinks of tools by glob pattern, to judge calls without a policy.
        enabled: as for every component.
    """

    def __init__(
        self,
        *,
        trusted_tools: Sequence[str] = (),
        trusted_hosts: Sequence[str] = (),
        trusted_paths: Sequence[str] = ("**",),
        private_tools: Sequence[str] = (),
        private_paths: Sequence[str] = (),
        sinks: Mapping[str, str] = EMPTY,
        enabled: bool | None = None,
    ) -> None:
        super().__init__(enabled=enabled)
        self.settings = FlowSettings(
            trusted_tools=tuple(trusted_tools),
            trusted_hosts=tuple(trusted_hosts),
            trusted_paths=tuple(trusted_paths),
            private_tools=tuple(private_tools),
            private_paths=tuple(private_paths),
            sinks=sinks,
        )

    def subscribe(self, host: Host) -> None:
        """Label the messages on the bus of *host*, and offer the facts about calls."""
        super().subscribe(host)
        sources = host.bus.shared(FactSources)
        sources.facts.append(self)
        self._undo.callback(sources.facts.remove, self)
        state = partial(self.state, shared=True)
        self.sessions = LabelledSessions(host, self.settings, sources, state)
        for mark, handler in self.sessions.handlers:
            # Without the limits of `restrict`: the texts of every tool are in view.
            self.add_handler(mark, handler, restricted=False)

    async def release(self, scope: Scope, message_id: str, *, reason: str, by: str) -> Label:
        """Trust the message of a session from now on; return its label.

        The act is kept in the component's state and logged; see `releases`. Messages that were
        made in view of it keep their labels. Raises `AppendError` for an unknown message.
        """
        return await self.sessions.release(scope, message_id, reason, by)

    async def releases(self, scope: Scope) -> tuple[Release, ...]:
        """Return the releases of messages in the session of *scope*, in order."""
        return await self.sessions.releases(scope)

    async def facts_of(self, ctx: EventContext[ToolCall]) -> CallFacts | None:
        """Return the facts of the call of *ctx*; None for a sender that it does not serve."""
        _ = ctx
        return None
