"""A dialect without a host: a decision is written as it is, and what cannot be told is listed."""

import json

import msgspec

from toolbus.hosts.dialects.hook_events import HookAnswer, HookEvent
from toolbus.hosts.dialects.host_dialect import ALL_ABILITIES, DialectFacts
from toolbus.messages.records import TextPart, ToolCall, ToolResponse

_KINDS = {
    "call": "deny",
    "result": "replace_result",
    "prompt": "block_prompt",
}


class PlainDialect:
    def __init__(self, **abilities):
        self.facts = DialectFacts(
            name="plain",
            title="Plain",
            version="1",
            sources=(),
            abilities={**ALL_ABILITIES, **abilities},
            kinds={},
        )

    def decode(self, name, payload):
        fields = {key: value for key, value in payload.items() if key not in {"call", "result"}}
        call = payload.get("call")
        made = None if call is None else ToolCall(**call)
        response = None
        if "result" in payload:
            parts = tuple([TextPart(text=text) for text in payload["result"]])
            response = ToolResponse(parts, is_error=payload.pop("failed", False))
        fields.pop("failed", None)
        return HookEvent(
            host="plain",
            name=name,
            kind=name,
            call=made,
            response=response,
            payload=payload,
            **fields,
        )

    def encode(self, event, decision):
        told = {}
        undelivered = []
        for field, ability in (
            ("call", "rewrite_arguments"),
            ("asked", "ask"),
            ("denied", _KINDS.get(event.kind, "deny")),
            ("response", "replace_result"),
            ("context", "add_context"),
        ):
            value = getattr(decision, field)
            if not value:
                continue
            if self.facts.abilities[ability] == "yes":
                told[field] = msgspec.to_builtins(value)
            else:
                undelivered.append(ability)
        return HookAnswer(stdout=json.dumps(told).encode(), undelivered=tuple(undelivered))

    def can_ask(self, event):
        return self.facts.abilities["ask"] == "yes"

    def fail_closed_answer(self, name, payload, reason):
        return HookAnswer(stdout=json.dumps({"blocked": reason}).encode())


def told(answer):
    return json.loads(answer.stdout)
