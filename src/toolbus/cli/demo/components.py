"""The handlers of the demo: what a user of toolbus writes, and nothing else.

`toolbus handlers components.py:components` shows in which order they run, `toolbus demo --without
NAME` what happens when one of them is missing.
"""

from __future__ import annotations

import re
from pathlib import Path

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
from toolbus.events.catalogue import TOOL_CALL_BEFORE, TOOL_CALL_ERROR, ToolCallFailure


class Redact(ToolAdapter):
    """Takes credentials out of whatever a tool returns, told by their shapes."""

    priority = 200  # Before anything is cut, so that no half of a credential stays.
    shapes = (
        (r"gh[opsu]_\w{36}", "GitHub token"),
        (r"AKIA[A-Z0-9]{16}", "AWS key"),
        (r"sk_live_\w+", "Stripe key"),
        (r"xox[abp]-[\w-]+", "Slack token"),
        (r"(?<=:)[^\s:/@]+(?=@)", "password"),
    )

    def adapt_response(self, response: ToolResponse, call: ToolCall) -> ToolResponse:
        return response.map_text(self.redacted)

    def redacted(self, text: str) -> str:
        for shape, name in self.shapes:
            text = re.sub(shape, f"[{name}]", text)
        return text


class Shorten(ToolAdapter):
    """Leaves the middle out of long texts, and says how to get at it."""

    keep = 12

    def adapt_response(self, response: ToolResponse, call: ToolCall) -> ToolResponse:
        return response.map_text(self.shortened)

    def shortened(self, text: str) -> str:
        lines = text.splitlines()
        left_out = len(lines) - 2 * self.keep
        if left_out <= self.keep:
            return text
        note = f"[{left_out} lines cut; try search_files]"
        return "\n".join([*lines[: self.keep], note, *lines[-self.keep :]])


class Secrets(AgentComponent):
    """No credential reaches the model, the transcript or the store."""

    def __init__(self) -> None:
        self.register_tool_adapter(Redact())


class LongResults(AgentComponent):
    """No result fills the model's context."""

    def __init__(self) -> None:
        self.register_tool_adapter(Shorten())


class GitManners(AgentComponent):
    """Commands are rewritten into what was meant."""

    rewrites = (
        (r"^git log$", "git log --oneline -n 20"),
        (r"^git push (--force|-f)(?!\S)", "git push --force-with-lease"),
    )

    @on(TOOL_CALL_BEFORE)
    def rewrite(self, ctx: EventContext[ToolCall]) -> ToolCall | None:
        command = command_of(ctx.value)
        for pattern, better in self.rewrites:
            command = re.sub(pattern, better, command)
        if command == command_of(ctx.value):
            return None
        return ctx.value.merge_arguments({"command": command})


class NoDestruction(AgentComponent):
    """Nothing is deleted that git cannot bring back."""

    destructive = re.compile(r"\bgit (reset --hard|clean -\w*f)|\brm -\w*[rf]")

    @guard(TOOL_CALL_BEFORE)
    def forbid(self, ctx: EventContext[ToolCall]) -> Deny | None:
        if match := self.destructive.search(command_of(ctx.value)):
            return Deny(f"`{match[0]}` cannot be undone; leave other people's files alone")
        return None


class AskBeforePush(AgentComponent):
    """A person decides about what leaves the machine."""

    @guard(TOOL_CALL_BEFORE)
    def ask(self, ctx: EventContext[ToolCall]) -> Ask | None:
        command = command_of(ctx.value)
        return Ask(f"May it run `{command}`?") if "git push" in command else None


class MissingFiles(AgentComponent):
    """A file that is not there is answered with those that are."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    @on(TOOL_CALL_ERROR)
    def answer(self, ctx: EventContext[ToolCallFailure]) -> ToolResponse | None:
        if ctx.value.error_type != "FileNotFoundError":
            return None
        path = Path(str(ctx.value.call.arguments.get("path", "")))
        try:
            there = sorted(file.name for file in (self.root / path.parent).glob("*"))
        except (OSError, ValueError):  # A path that no system takes.
            return None
        return ToolResponse.from_text(f"no {path}; {path.parent} has: {', '.join(there)}")


def command_of(call: ToolCall) -> str:
    """Return the command of a call that runs one, else nothing; a model may forget it."""
    return str(call.arguments.get("command", "")) if call.name == "run_command" else ""


def components(root: str | Path = ".") -> list[AgentComponent]:
    """Return the components for an agent that works in the folder *root*."""
    return [
        Secrets(),
        LongResults(),
        GitManners(),
        NoDestruction(),
        AskBeforePush(),
        MissingFiles(root),
    ]
