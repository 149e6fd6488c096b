"""The states of a tool call, and what leads from one to the next: the whole of its life.

Every state of `STEPS` has a step, whose signal is looked up in `TRANSITIONS`; what is no key
there is an end, and the status of the outcome. Cancellation may come in any state, and its end
is `cancelled`; `interrupted` is the end of a call that a former process left without an answer.
"""

from __future__ import annotations

from typing import Literal, get_args

from toolbus.events import ToolStatus

State = Literal["requested", "asking", "permitted", "known", "running", "failed", "overdue"]
Signal = Literal[
    "allowed",
    "asked",
    "answered",
    "denied",
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
    # A person has decided.
    "asking": {"allowed": "permitted", "answered": "answered", "denied": "denied"},
    # The final name was looked up.
    "permitted": {"known": "known", "unknown": "unknown_tool"},
    # The final arguments were validated.
    "known": {"valid": "running", "invalid": "invalid_arguments"},
    # The tool ran.
    "running": {"returned": "ok", "failed": "failed", "timed_out": "overdue"},
    # Handlers of the error have spoken: a fallback or the error itself settles it.
    "failed": {"again": "running", "settled": "error"},
    "overdue": {"again": "running", "settled": "timeout"},
}

ENDS: frozenset[str] = frozenset(get_args(ToolStatus))
