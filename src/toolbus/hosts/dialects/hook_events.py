"""The records of a hook event: the event, the decision about it, and the answer to its host.

A host is a coding agent that starts our command for each of its hook events. Its dialect decodes
the event's JSON into a `HookEvent`, and encodes a `HookDecision` as the host's `HookAnswer`.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from toolbus.messages.records import ToolCall, ToolResponse

HookKind: TypeAlias = Literal[
    "call", "result", "prompt", "answer", "session_start", "session_end", "other"
]
"""The kind of an event: a call before it runs, its result or failure, a user's prompt, the model's
final text of a turn, the start or end of a session, or any other event, which is only observed."""

Ability: TypeAlias = Literal[
    "observe",
    "rewrite_arguments",
    "fill_arguments",
    "deny",
    "ask",
    "replace_result",
    "replace_failure",
    "add_context",
    "block_prompt",
]
"""An action that a host allows to a hook; with `ask` the host itself asks its user.

`fill_arguments`: the model does not see rewritten arguments, and rewriting permits no call.
"""

Delivery: TypeAlias = Literal["yes", "mcp", "commands", "no"]
"""Whether an ability works: always, only for tools of MCP servers, only for shell commands, or
never."""


class HookEvent(Struct, frozen=True, kw_only=True):
    """One decoded event.

    Args:
        host: the dialect's name, such as "claude-code".
        name: the host's name of the event.
        kind: the kind of the event.
        session_id: the host's own id of its session.
        folder: the absolute current folder of the tools; "" if the host does not report it.
        agent: the id of the sub-agent; "" for the session's main agent.
        call: the call that the host is about to run, or ran. Its id is "" if the host gives
            calls no ids.
        response: the result of the tool: one text part for each text in the host's result, in
            order, so that a changed text can be put back in its place.
        text: the user's prompt, or the model's final text.
        payload: the event's JSON, from which the answer copies the result's structure.
    """

    host: str
    name: str
    kind: HookKind
    session_id: str
    folder: str = ""
    agent: str = ""
    call: ToolCall | None = None
    response: ToolResponse | None = None
    text: str = ""
    payload: Any = None


class HookDecision(Struct, frozen=True, kw_only=True):
    """The outcome of an event on the bus; a decision without any field passes it unchanged.

    Args:
        call: the call to run instead.
        denied: the reason of a denial, for the model.
        asked: the question that the host must ask its user first.
        response: the response that replaces the result for the model.
        context: additional texts for the model.
        notice: a sentence for the user, if the host can show it.
        skips_prompt: whether the host may skip its own prompt, if it can be told so.
    """

    call: ToolCall | None = None
    denied: str | None = None
    asked: str | None = None
    response: ToolResponse | None = None
    context: tuple[str, ...] = ()
    notice: str = ""
    skips_prompt: bool = False


class HookAnswer(Struct, frozen=True, kw_only=True):
    """The output and the exit code of our command.

    *undelivered* are the parts of the decision that the host cannot carry out. If it contains
    "replace_result" or "replace_failure", the model reads the original result.
    """

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int = 0
    undelivered: tuple[Ability, ...] = ()
