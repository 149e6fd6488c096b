"""The flow component: labels for the texts of a session, and facts about calls for rules."""

from __future__ import annotations

# A configuration reads the hints of the constructor while the program runs.
from collections.abc import Mapping, Sequence  # noqa: TC003
from typing import TYPE_CHECKING

from toolbus.components.call_facts import FactSources
from toolbus.components.marks import Mark
from toolbus.events.catalogue import TOOL_CALL_BEFORE
from toolbus.flow.call_facts import CallFactMaker
from toolbus.flow.carried_values import load_finders
from toolbus.flow.labelled_sessions import LabelledSessions
from toolbus.flow.own_rules import check_sinks, judge
from toolbus.flow.sources import FlowSettings, read_globs, read_hosts
from toolbus.messages.immutable import EMPTY

if TYPE_CHECKING:
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.components.call_facts import CallFacts
    from toolbus.components.components import Host
    from toolbus.events.catalogue import Ask, Deny
    from toolbus.messages.records import ToolCall


class FlowGuard(LabelledSessions):
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
        check_sinks(sinks)
        load_finders()  # A missing extra is an error of the configuration, not of a call.
        settings = FlowSettings(
            trusted_tools=read_globs("trusted_tools", trusted_tools),
            trusted_hosts=read_hosts("trusted_hosts", trusted_hosts),
            trusted_paths=read_globs("trusted_paths", trusted_paths),
            private_tools=read_globs("private_tools", private_tools),
            private_paths=read_globs("private_paths", private_paths),
            sinks=sinks,
        )
        super().__init__(settings, enabled=enabled)

    def subscribe(self, host: Host) -> None:
        """Offer the facts about calls to the components on the bus of *host*."""
        super().subscribe(host)
        sources = host.bus.shared(FactSources)
        sources.facts.append(self)
        self._undo.callback(sources.facts.remove, self)
        self._facts = CallFactMaker(self.settings, sources)
        if self.settings.sinks:
            self.add_handler(Mark(TOOL_CALL_BEFORE, "guard", {"on_error": "closed"}), self.judge)

    async def facts_of(self, ctx: EventContext[ToolCall]) -> CallFacts | None:
        """Return the facts of the call of *ctx*; None while the component is not enabled."""
        if not self.enabled:
            # It sees no texts meanwhile: later they are read from the record.
            self.forget_session(ctx.scope.session_id)
            return None
        return await self._facts.facts(ctx, await self.view(ctx.scope))

    async def judge(self, ctx: EventContext[ToolCall]) -> Deny | Ask | None:
        """Judge a call by the sink that its tool is; see `toolbus.flow.own_rules`."""
        facts = await self._facts.facts(ctx, await self.view(ctx.scope))
        return judge(ctx.value, self.settings.sinks, facts)
