"""Three adapters and a guard, as a proxy has them in the field."""

from __future__ import annotations

from toolbus import (
    AgentComponent,
    Deny,
    EventContext,
    ToolAdapter,
    ToolCall,
    ToolResponse,
    events,
    guard,
)


class Redact(ToolAdapter):
    """Take one word out of every text."""

    def adapt_response(self, response: ToolResponse, call: ToolCall) -> ToolResponse:
        """Return it without the word."""
        return response.map_text(lambda text: text.replace("hunter2", "[redacted]"))


class Cut(ToolAdapter):
    """Cut what is too long."""

    def adapt_response(self, response: ToolResponse, call: ToolCall) -> ToolResponse:
        """Return it cut."""
        return response.map_text(lambda text: text[:100_000])


class Plain(ToolAdapter):
    """Take control characters out."""

    def adapt_response(self, response: ToolResponse, call: ToolCall) -> ToolResponse:
        """Return it without escapes."""
        return response.map_text(lambda text: text.replace("\x1b", ""))


class Guard(AgentComponent):
    """A guard alone."""

    @guard(events.TOOL_CALL_BEFORE)
    def no_rm(self, ctx: EventContext[ToolCall]) -> Deny | None:
        """Refuse one tool."""
        return Deny("not here") if ctx.value.name == "rm" else None


class Policy(Guard):
    """The three, and the guard."""

    def __init__(self) -> None:
        for adapter in (Redact(), Cut(), Plain()):
            self.register_tool_adapter(adapter)
