"""A component that denies calls with the facts about them as its reason; also copied by tests."""

import json

from toolbus import AgentComponent, Deny, events, guard
from toolbus.components.call_facts import FactSources


class TellingJudge(AgentComponent):
    """Denies calls of two tools: the texts in view, and the untrusted pieces of arguments."""

    @guard(events.TOOL_CALL_BEFORE, tools=["Bash", "send"])
    async def tell_facts(self, ctx):
        (source,) = self.host.bus.shared(FactSources).facts
        facts = await source.facts_of(ctx)
        texts = [value for value in ctx.value.arguments.values() if isinstance(value, str)]
        pieces = [piece for text in texts for piece in facts.quoted(text)]
        untrusted = [[each.source, each.text] for each in pieces if "untrusted" in each.labels]
        return Deny(json.dumps({"in_view": dict(facts.in_view), "untrusted": untrusted}))
