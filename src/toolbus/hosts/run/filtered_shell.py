"""Shell commands of Claude Code, rewritten so that all they write passes the hooks.

What a failed tool said cannot be replaced there, so a command that fails would show its output as
it is. The command stays in plain sight: the host's own rules hold for what a person asked them to
hold for, which they would not for a command inside a quotation (2.1.329 judges the rewritten one).
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolbus.hosts.run import shell_filter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.hosts.dialects.hook_events import (
        Ability,
        Delivery,
        HookAnswer,
        HookDecision,
        HookEvent,
        HostDialect,
    )
    from toolbus.messages.records import ToolCall

FILTERED_HOSTS = frozenset({"claude-code"})
"""Hosts whose shell commands can be filtered: one that was run, and needs it."""

_TOOL = "Bash"
_SHELLS = ("/bin/bash", "/bin/sh")
_SECONDS = 5.0

_NO_COMMAND = (
    "toolbus: the command cannot be filtered, for it is no whole shell command; "
    "close what it opens, and try again"
)


def filtered(dialect: HostDialect, client: str) -> HostDialect:
    """Return *dialect*, with shell commands that pass the hook *client* where they need it."""
    return FilteredShell(dialect, client) if dialect.name in FILTERED_HOSTS else dialect


def filtered_command(command: str, client: str, session_id: str, call_id: str) -> str | None:
    """Return *command* with all it writes piped into the filter; None if it is no whole command.

    The exit code stays that of *command*. Of a command that closes the group around it the rest
    would pass no filter, so it must be whole without it.
    """
    if not _is_whole(command):
        return None
    words = [sys.executable, "-I", "-S", shell_filter.__file__, client, session_id, call_id]
    return f"set -o pipefail\n(\n{command}\n) 2>&1 | {shlex.join(words)}"


class FilteredShell:
    """A *dialect* whose host runs shell commands through a filter, as the last change to them."""

    def __init__(self, dialect: HostDialect, client: str) -> None:
        self._dialect, self._client = dialect, client

    @property
    def name(self) -> str:
        """The host's name."""
        return self._dialect.name

    @property
    def title(self) -> str:
        """What its makers call it."""
        return self._dialect.title

    @property
    def abilities(self) -> Mapping[Ability, Delivery]:
        """What the host lets a hook do, and what the filter adds."""
        return {**self._dialect.abilities, "replace_failure": "commands"}

    def decode(self, name: str, payload: Mapping[str, Any]) -> HookEvent:
        """Return the event as the dialect reads it."""
        return self._dialect.decode(name, payload)

    def block(self, name: str, payload: Any, reason: str) -> HookAnswer:
        """Return the dialect's block."""
        return self._dialect.block(name, payload, reason)

    def encode(self, event: HookEvent, decision: HookDecision) -> HookAnswer:
        """Return how the host is told of *decision*, with the command filtered."""
        call = decision.call or event.call
        if event.kind != "call" or decision.denied is not None or call is None:
            return self._dialect.encode(event, decision)
        return self._dialect.encode(event, self._with_filter(event, decision, call))

    def _with_filter(
        self, event: HookEvent, decision: HookDecision, call: ToolCall
    ) -> HookDecision:
        command = call.arguments.get("command")
        # What runs in the background is read by another tool, whose results can be replaced.
        in_background = call.arguments.get("run_in_background") is True
        if call.name != _TOOL or not isinstance(command, str) or in_background:
            return decision
        new = filtered_command(command, self._client, event.session_id, call.id)
        if new is None:
            return replace(decision, denied=_NO_COMMAND)
        return replace(decision, call=call.merge_arguments({"command": new}))


def _is_whole(command: str) -> bool:
    """Tell whether a shell can read *command* for itself; nothing of it is run."""
    for shell in _SHELLS:
        try:
            done = subprocess.run(  # noqa: S603 - `-n` runs nothing
                [shell, "-n"],
                input=command.encode(),
                capture_output=True,
                env={},
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        # A warning, of a document without its end, is as bad: it would take the group's end along.
        return done.returncode == 0 and not done.stderr
    return False
