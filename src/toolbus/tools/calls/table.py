"""The states of a tool call, and what leads from one to the next: the whole of its life.

| state | signal | next |
|---|---|---|
| requested | allowed | permitted |
| requested | asked | asking |
| requested | answered | *answered* |
| requested | denied | *denied* |
| requested | rejected | *invalid_arguments* |
| asking | allowed | permitted |
| asking | answered | *answered* |
| asking | approved | requested |
| asking | denied | *denied* |
| asking | waits | *pending* |
| permitted | known | known |
| permitted | unknown | *unknown_tool* |
| known | valid | running |
| known | denied | *denied* |
| known | invalid | *invalid_arguments* |
| running | returned | *ok* |
| running | failed | failed |
| running | timed_out | overdue |
| running | waits | *pending* |
| failed | again | running |
| failed | settled | *error* |
| overdue | again | running |
| overdue | settled | *timeout* |

An end is the status of the outcome. Two more come from outside: cancellation may come in any state,
and its end is *cancelled*; *interrupted* is the end of a call that a former process left without
an answer. A handler that fails with the policy "raise" leaves a failed or overdue call settled,
and any other *denied*. The end *pending* is none for a caller that goes on later: it leaves the
call open, and the same call, requested again, attaches to its question.
"""

from __future__ import annotations

from typing import Literal, get_args

from toolbus.events.call_values import ToolStatus

State = Literal["requested", "asking", "permitted", "known", "running", "failed", "overdue"]
Signal = Literal[
    "allowed",
    "asked",
    "answered",
    "denied",
    "approved",
    "waits",
    "rejected",
    "known",
    "unknown",
    "valid",
    "invalid",
    "returned",
    "failed",
    "timed_out",
    "again",
    "settled",
]

TRANSITIONS: dict[State, dict[Signal, State | ToolStatus]] = {
    # Transformers and guards have seen the call.
    "requested": {
        "allowed": "permitted",
        "asked": "asking",
        "answered": "answered",
        "denied": "denied",
        "rejected": "invalid_arguments",
    },
    # A person has decided; after a while, so that handlers see the call once more.
    "asking": {
        "allowed": "permitted",
        "answered": "answered",
        "approved": "requested",
        "denied": "denied",
        "waits": "pending",
    },
    # The final name was looked up.
    "permitted": {"known": "known", "unknown": "unknown_tool"},
    # What the tool alone gets was filled in, and the arguments were validated.
    "known": {"valid": "running", "denied": "denied", "invalid": "invalid_arguments"},
    # The tool ran, or stopped at a question of its own.
    "running": {"returned": "ok", "failed": "failed", "timed_out": "overdue", "waits": "pending"},
    # Handlers of the error have spoken: a fallback or the error itself settles it.
    "failed": {"again": "running", "settled": "error"},
    "overdue": {"again": "running", "settled": "timeout"},
}

ENDS: frozenset[str] = frozenset(get_args(ToolStatus))
