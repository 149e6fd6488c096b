"""The records of a hook event: the event, the decision about it, and the answer to its host.

A host is a coding agent that starts our command for each event of its hooks. Its dialect reads
the JSON of the event as a `HookEvent`, and writes a `HookDecision` as the `HookAnswer` that the
host understands.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from toolbus.messages.records import ToolCall, ToolResponse

HookKind: TypeAlias = Literal[
    "call", "result", "prompt", "answer", "session_start", "session_end", "other"
]
"""The subject of an event: a call before it runs, its result or failure, a person's prompt, the
model's final text of a turn, the session, or something that is only observed."""

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
"""A deed that a host lets a hook do; `ask` is a question of its own to the person.

`fill_arguments`: rewritten arguments stay from its model, and are no permission to run the call.
"""

Delivery: TypeAlias = Literal["yes", "mcp", "commands", "no"]
"""Whether an ability reaches the model: always, for tools of MCP servers only, for commands of a
shell only, or never."""


class HookEvent(Struct, frozen=True, kw_only=True):
    """One event as a dialect read it.

    Args:
        host: the dialect's name, such as "claude-code".
        name: the event as the host calls it.
        kind: its subject.
        session_id: the host's own id of its session.
        folder: the absolute folder in which the tools work now; "" if the host does not say.
        agent: the id of a sub-agent that speaks; "" for the session's main agent.
        call: the call that the host is about to run, or ran. Its id is "" where the host gives
            calls none.
        response: the result of the tool: one text part for each text in the host's frame, in its
            order, so that a changed text goes back to its place.
        text: the person's prompt, or the model's final text.
        payload: the event as it came, for the frame of the answer.
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
    """The outcome of an event on the bus; a decision without any field lets it pass as it is.

    Args:
        call: the call that is to run instead.
        denied: the reason why it may not go on, for the model.
        asked: the question to a person that comes before.
        response: the response that the model is to read instead of the result.
        context: texts that the model is to read in addition.
        notice: a sentence for the person; a host that shows none leaves it out.
        skips_prompt: whether the host need not ask its person; a host that cannot be told asks.
    """

    call: ToolCall | None = None
    denied: str | None = None
    asked: str | None = None
    response: ToolResponse | None = None
    context: tuple[str, ...] = ()
    notice: str = ""
    skips_prompt: bool = False


class HookAnswer(Struct, frozen=True, kw_only=True):
    """The output and the exit code of our command; of *undelivered* the host cannot be told.

    Of a result that had to be replaced and could not be, "replace_result" or "replace_failure"
    stands there: then the model reads the original.
    """

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int = 0
    undelivered: tuple[Ability, ...] = ()
