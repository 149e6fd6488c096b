"""The states of a tool call, and the transitions between them.

| state | signal | next |
|---|---|---|
| requested | allowed | permitted |
| requested | answered | *answered* |
| requested | denied | *denied* |
| requested | rejected | *invalid_arguments* |
| permitted | valid | running |
| permitted | unknown | *unknown_tool* |
| permitted | denied | *denied* |
| permitted | invalid | *invalid_arguments* |
| running | returned | *ok* |
| running | failed | failed |
| running | timed_out | overdue |
| failed | again | running |
| failed | settled | *error* |
| overdue | again | running |
| overdue | settled | *timeout* |

A runner with a gate also has:

| state | signal | next |
|---|---|---|
| requested | asked | asking |
| asking | allowed | permitted |
| asking | answered | *answered* |
| asking | approved | requested |
| asking | denied | *denied* |
| asking | waits | *pending* |
| running | waits | *pending* |

An end is the status of the outcome. Two more ends come from outside the table: *cancelled*, from
any state, and *interrupted*, for a call that a former process left without an answer. A handler
that fails with the policy "raise" leaves a failed or overdue call settled, and any other *denied*.
A call that ends as *pending* may be left open: the same call, requested again, attaches to its
question.
"""

from __future__ import annotations

from typing import Literal, get_args

from toolbus.events.call_values import ToolStatus

State = Literal["requested", "permitted", "running", "failed", "overdue", "asking"]
Signal = Literal[
    "allowed",
    "answered",
    "denied",
    "rejected",
    "unknown",
    "valid",
    "invalid",
    "returned",
    "failed",
    "timed_out",
    "again",
    "settled",
    "asked",
    "approved",
    "waits",
]

TRANSITIONS: dict[State, dict[Signal, State | ToolStatus]] = {
    # Transformers and guards have seen the call.
    "requested": {
        "allowed": "permitted",
        "answered": "answered",
        "denied": "denied",
        "rejected": "invalid_arguments",
    },
    # The final name was looked up, fillers added the values for the tool alone, and the arguments
    # were validated.
    "permitted": {
        "valid": "running",
        "unknown": "unknown_tool",
        "denied": "denied",
        "invalid": "invalid_arguments",
    },
    # The tool ran.
    "running": {"returned": "ok", "failed": "failed", "timed_out": "overdue"},
    # Handlers of the error have run: a fallback or the error itself settles it.
    "failed": {"again": "running", "settled": "error"},
    "overdue": {"again": "running", "settled": "timeout"},
}

_OF_A_GATE: dict[State, dict[Signal, State | ToolStatus]] = {
    # A guard has a question.
    "requested": {"asked": "asking"},
    # A person has decided; after a while, so that handlers see the call once more.
    "asking": {
        "allowed": "permitted",
        "answered": "answered",
        "approved": "requested",
        "denied": "denied",
        "waits": "pending",
    },
    # The tool stopped at a question of its own.
    "running": {"waits": "pending"},
}

GATED_TRANSITIONS: dict[State, dict[Signal, State | ToolStatus]] = {
    state: {**TRANSITIONS.get(state, {}), **_OF_A_GATE.get(state, {})} for state in get_args(State)
}

ENDS: frozenset[str] = frozenset(get_args(ToolStatus))
