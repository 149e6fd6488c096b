"""What each host takes for an answer, from its types, schemas and reference; and recorded events.

`check_answer` refuses what the host would: an unknown member, a wrong type, a word that it does not
know. The sources are those that each dialect names.
"""

import json
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

RECORDED = Path(__file__).parents[1] / "data/hosts"


def recorded(host: str, name: str) -> dict[str, Any]:
    """Return the payload of an event as *host* wrote it, from the file *name*."""
    return json.loads((RECORDED / host / f"{name}.json").read_bytes())


def all_recorded(host: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the names and payloads of all events of *host* that were recorded."""
    files = sorted((RECORDED / host).glob("*.json"))
    return [(path.stem.partition("-")[0], json.loads(path.read_bytes())) for path in files]


def check_answer(host: str, name: str, answer: Any) -> Any:
    """Return the JSON of *answer*, None if there is none; raise unless *host* takes it."""
    assert answer.exit_code in {0, 2}
    if not answer.stdout:
        return None
    schema = _SCHEMAS[host]
    kind = schema.get(name, schema["*"])
    msgspec.json.decode(answer.stdout, type=kind)
    return json.loads(answer.stdout)


class _Closed(Struct, forbid_unknown_fields=True, kw_only=True):
    pass


# --- Claude Code --------------------------------------------------------------------------------


class _ClaudeAnswer(_Closed):
    """`SyncHookJSONOutput` of sdk.d.ts, as far as we say anything of it."""

    continue_: bool | UnsetType = msgspec.field(name="continue", default=UNSET)
    stopReason: str | UnsetType = UNSET  # noqa: N815 - the host's name, as all below
    systemMessage: str | UnsetType = UNSET  # noqa: N815


class _ClaudeCallOutput(_Closed):
    hookEventName: Literal["PreToolUse"]  # noqa: N815
    permissionDecision: Literal["deny", "ask"] | UnsetType = UNSET  # noqa: N815
    permissionDecisionReason: str | UnsetType = UNSET  # noqa: N815
    updatedInput: dict[str, Any] | UnsetType = UNSET  # noqa: N815
    additionalContext: str | UnsetType = UNSET  # noqa: N815


class _ClaudeCall(_ClaudeAnswer):
    hookSpecificOutput: _ClaudeCallOutput | UnsetType = UNSET  # noqa: N815


class _ClaudeResultOutput(_Closed):
    hookEventName: Literal["PostToolUse"]  # noqa: N815
    updatedToolOutput: Any = UNSET  # noqa: N815
    additionalContext: str | UnsetType = UNSET  # noqa: N815


class _ClaudeResult(_ClaudeAnswer):
    hookSpecificOutput: _ClaudeResultOutput | UnsetType = UNSET  # noqa: N815


class _ContextOutput(_Closed):
    hookEventName: str  # noqa: N815
    additionalContext: str  # noqa: N815


class _ClaudeOther(_ClaudeAnswer):
    hookSpecificOutput: _ContextOutput | UnsetType = UNSET  # noqa: N815


class _ClaudePrompt(_ClaudeOther):
    decision: Literal["block"] | UnsetType = UNSET
    reason: str | UnsetType = UNSET


# --- Codex: the schemas in its program, all closed ------------------------------------------------


class _CodexCallOutput(_Closed):
    """An `allow` without other arguments is an error there, and so is an `ask`."""

    hookEventName: Literal["PreToolUse"]  # noqa: N815
    permissionDecision: Literal["allow", "deny"] | UnsetType = UNSET  # noqa: N815
    permissionDecisionReason: str | UnsetType = UNSET  # noqa: N815
    updatedInput: dict[str, Any] | UnsetType = UNSET  # noqa: N815
    additionalContext: str | UnsetType = UNSET  # noqa: N815

    def __post_init__(self) -> None:
        if (self.permissionDecision == "allow") != (self.updatedInput is not UNSET):
            raise ValueError("allow, and other arguments, only together")


class _CodexAnswer(_Closed):
    systemMessage: str | UnsetType = UNSET  # noqa: N815


class _CodexCall(_CodexAnswer):
    hookSpecificOutput: _CodexCallOutput | UnsetType = UNSET  # noqa: N815


class _CodexOther(_CodexAnswer):
    hookSpecificOutput: _ContextOutput | UnsetType = UNSET  # noqa: N815


class _CodexBlocking(_CodexOther):
    decision: Literal["block"] | UnsetType = UNSET
    reason: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        # An empty reason counts as no decision: the original goes on.
        if self.decision is not UNSET and not str(self.reason or "").strip():
            raise ValueError("a block without a reason")


# --- Copilot --------------------------------------------------------------------------------------


class _CopilotCall(_Closed):
    permissionDecision: Literal["deny", "ask"] | UnsetType = UNSET  # noqa: N815
    permissionDecisionReason: str | UnsetType = UNSET  # noqa: N815
    modifiedArgs: dict[str, Any] | UnsetType = UNSET  # noqa: N815
    additionalContext: str | UnsetType = UNSET  # noqa: N815


class _CopilotToolResult(_Closed):
    resultType: Literal["success", "failure"]  # noqa: N815
    textResultForLlm: str  # noqa: N815


class _CopilotResult(_Closed):
    modifiedResult: _CopilotToolResult | UnsetType = UNSET  # noqa: N815
    additionalContext: str | UnsetType = UNSET  # noqa: N815


class _CopilotPrompt(_Closed):
    decision: Literal["block"] | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    additionalContext: str | UnsetType = UNSET  # noqa: N815


class _CopilotOther(_Closed):
    additionalContext: str | UnsetType = UNSET  # noqa: N815


_SCHEMAS: dict[str, dict[str, Any]] = {
    "claude-code": {
        "PreToolUse": _ClaudeCall,
        "PostToolUse": _ClaudeResult,
        "UserPromptSubmit": _ClaudePrompt,
        "*": _ClaudeOther,
    },
    "codex": {
        "PreToolUse": _CodexCall,
        "PostToolUse": _CodexBlocking,
        "UserPromptSubmit": _CodexBlocking,
        "*": _CodexOther,
    },
    "copilot": {
        "preToolUse": _CopilotCall,
        "postToolUse": _CopilotResult,
        "userPromptSubmitted": _CopilotPrompt,
        "*": _CopilotOther,
    },
}
