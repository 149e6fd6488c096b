"""What each host takes for an answer, from its types, schemas and reference.

`check_answer` refuses what the host would: an unknown member, a wrong type, a word that it does not
know. The sources are those that each dialect names.
"""

import json
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType


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
        _needs_reason(self.decision, self.reason)


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


# --- Gemini CLI: docs/hooks/reference.md --------------------------------------------------------


class _GeminiOutput(_Closed):
    hookEventName: str  # noqa: N815
    tool_input: dict[str, Any] | UnsetType = UNSET
    additionalContext: str | UnsetType = UNSET  # noqa: N815


class _GeminiAnswer(_Closed):
    decision: Literal["deny"] | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    systemMessage: str | UnsetType = UNSET  # noqa: N815
    hookSpecificOutput: _GeminiOutput | UnsetType = UNSET  # noqa: N815

    def __post_init__(self) -> None:
        _needs_reason(self.decision, self.reason)


# --- Vibe: the skill "vibe" in its wheel ----------------------------------------------------------


class _VibeOutput(_Closed):
    tool_input: dict[str, Any] | UnsetType = UNSET
    additional_context: str | UnsetType = UNSET


class _VibeAnswer(_Closed):
    decision: Literal["deny"] | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    system_message: str | UnsetType = UNSET
    hook_specific_output: _VibeOutput | UnsetType = UNSET

    def __post_init__(self) -> None:
        _needs_reason(self.decision, self.reason)


# --- Cursor: cursor.com/docs/agent/hooks ----------------------------------------------------------


class _CursorAnswer(_Closed):
    permission: Literal["allow", "deny"] | UnsetType = UNSET
    user_message: str | UnsetType = UNSET
    agent_message: str | UnsetType = UNSET
    updated_input: dict[str, Any] | UnsetType = UNSET
    additional_context: str | UnsetType = UNSET
    updated_mcp_tool_output: dict[str, Any] | UnsetType = UNSET
    continue_: bool | UnsetType = msgspec.field(name="continue", default=UNSET)


# --- Our bridges: src/toolbus/hosts/dialects/bridges.py -----------------------------------------


class _BridgeAnswer(_Closed):
    block: str | UnsetType = UNSET
    ask: str | UnsetType = UNSET
    arguments: dict[str, Any] | UnsetType = UNSET
    result: str | list[dict[str, Any]] | UnsetType = UNSET
    context: str | UnsetType = UNSET


def _needs_reason(decision: Any, reason: Any) -> None:
    # An empty reason is replaced by words of the host, or counts as no decision.
    if decision is not UNSET and not str(reason or "").strip():
        raise ValueError("a decision without a reason")


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
    "gemini-cli": {"*": _GeminiAnswer},
    "vibe": {"*": _VibeAnswer},
    "cursor": {"*": _CursorAnswer},
    "pi": {"*": _BridgeAnswer},
    "opencode": {"*": _BridgeAnswer},
}


def stops(kind: str, value: Any) -> bool:
    """Tell whether the answer *value* of any host keeps what an event of *kind* is about back.

    That is: the call is not run, the prompt not sent, the result not read as it was.
    """
    match value:
        case {"hookSpecificOutput": {"permissionDecision": "deny"}} | {
            "permissionDecision": "deny"
        }:
            return kind == "call"
        case {"permission": "deny"}:
            return kind == "call"
        case {"continue": False, "user_message": str()}:
            return kind == "prompt"
        case {"decision": "block" | "deny"} | {"block": str()}:
            return True
        case {"hookSpecificOutput": {"updatedToolOutput": _}} | {"modifiedResult": {}}:
            return kind == "result"
        case {"updated_mcp_tool_output": {}} | {"result": _}:
            return kind == "result"
        case {"content": [*_]}:  # The gateway takes it for the result.
            return True
    return False
