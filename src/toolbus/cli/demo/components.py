"""The handlers of the demo, as a user of toolbus writes them; `toolbus demo` names this file."""

from __future__ import annotations

import re

from toolbus import (
    AgentComponent,
    Ask,
    Deny,
    EventContext,
    ToolAdapter,
    ToolCall,
    ToolResponse,
    guard,
    on,
)
from toolbus.events.catalogue import TOOL_CALL_BEFORE
from toolbus.truncation.truncate_output import TruncateOutput


class Redact(ToolAdapter):
    """Keeps credentials, found by their formats, from the model, the transcript and the store."""

    formats = (
        (r"gh[opsu]_\w{36}", "GitHub token"),
        (r"sk_live_\w+", "Stripe key"),
        (r"(?<=:)[^\s:/@]+(?=@)", "password"),
    )

    def adapt_response(self, response: ToolResponse, call: ToolCall) -> ToolResponse:
        return response.map_text(self.redact)

    def redact(self, text: str) -> str:
        for pattern, name in self.formats:
            text = re.sub(pattern, f"[{name}]", text)
        return text


class GitManners(AgentComponent):
    """Rewrites a forced push into one that overwrites nobody else's commits."""

    @on(TOOL_CALL_BEFORE, tools="shell")
    def rewrite(self, ctx: EventContext[ToolCall]) -> ToolCall | None:
        command = str(ctx.value.arguments.get("command"))
        better = re.sub(r"\bgit push (--force|-f)(?!\S)", "git push --force-with-lease", command)
        return ctx.value.merge_arguments({"command": better}) if better != command else None


class NoDestruction(AgentComponent):
    """Denies commands that delete work which git cannot restore."""

    destructive = re.compile(r"\bgit (reset --hard|clean -\w*f)|\brm -\w*[rf]")

    @guard(TOOL_CALL_BEFORE, tools="shell")
    def forbid(self, ctx: EventContext[ToolCall]) -> Deny | None:
        if match := self.destructive.search(str(ctx.value.arguments.get("command"))):
            return Deny(f"`{match[0]}` cannot be undone; leave other people's files alone")
        return None


class AskBeforePush(AgentComponent):
    """Asks a person before anything leaves the machine."""

    @guard(TOOL_CALL_BEFORE, tools="shell")
    def ask(self, ctx: EventContext[ToolCall]) -> Ask | None:
        command = str(ctx.value.arguments.get("command"))
        return Ask(f"May it run `{command}`?") if "git push" in command else None


def components() -> list[AgentComponent | ToolAdapter]:
    """Return the handlers between the agent and its tools."""
    limit = TruncateOutput(characters=1_000)
    return [Redact(), limit, GitManners(), NoDestruction(), AskBeforePush()]
