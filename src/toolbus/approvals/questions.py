"""The records of questions and grants, and the states of a question.

| state | signal | next |
|---|---|---|
| pending | approve | approved |
| pending | deny | denied |
| pending | expire | expired |
| pending | withdraw | withdrawn |
| pending | release | taken |
| approved | take | taken |
| approved | expire | expired |
| approved | withdraw | withdrawn |
| taken | end | done |
| taken | lose | unknown |
| unknown | settle_ran | done |
| unknown | settle_never_ran | withdrawn |
| hosted | end | done |
| hosted | lose | unheard |
| unheard | end | done |

A *hosted* question is put to the user by the coding agent itself: it cannot be answered here, no
approval of it is ever taken, and the user's answer is unknown. It is *done* when the host reports
the result, and *unheard* if the session continues without one: most likely refused.

Each step is one `swap_state` of the store, so exactly one of two concurrent steps counts. Before
*taken* the call has not run; *done* means that it ran once; *taken* and *unknown* that it may have
run, and it never runs again automatically. A question is released when its call continues and no
guard asks about it any more: the call may run.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from toolbus.messages.fields import Record, freeze_objects
from toolbus.messages.immutable import EMPTY, JsonObject

QuestionState: TypeAlias = Literal[
    "pending",
    "approved",
    "denied",
    "expired",
    "withdrawn",
    "taken",
    "done",
    "unknown",
    "hosted",
    "unheard",
]
QuestionSignal: TypeAlias = Literal[
    "approve",
    "deny",
    "expire",
    "withdraw",
    "release",
    "take",
    "end",
    "lose",
    "settle_ran",
    "settle_never_ran",
]

TRANSITIONS: dict[QuestionState, dict[QuestionSignal, QuestionState]] = {
    "pending": {
        "approve": "approved",
        "deny": "denied",
        "expire": "expired",
        "withdraw": "withdrawn",
        "release": "taken",
    },
    "approved": {"take": "taken", "expire": "expired", "withdraw": "withdrawn"},
    "taken": {"end": "done", "lose": "unknown"},
    "unknown": {"settle_ran": "done", "settle_never_ran": "withdrawn"},
    "hosted": {"end": "done", "lose": "unheard"},
    "unheard": {"end": "done"},
}
"""The next states by signal; a state without an entry is final."""

PREFIX, GRANT_PREFIX, ATTACH_PREFIX = "question:", "grant:", "asked:"
"""The prefixes of the names of states with questions, grants and the latest question about a call,
in the session of the question."""


class Question(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A question about a call, and its answer; times are nanoseconds since the epoch, UTC.

    *tool* and *arguments* are the call as it would run, with the placeholders of redaction; *tool*
    is empty for a run, whose prompt is the argument `prompt`. *hidden*: the tool gets arguments
    that are not stored and cannot be filled in again, so only the program that made the call can
    run it. *filled* are the JSON paths at which the tool gets values that are never shown, such as
    secrets in place of their names. *requested* is the call as the model wrote it, if different.
    *digest* covers tool and arguments as stored, *rules* the active rules, *definition* the tool's
    name, description and parameters, "" if unknown. *delivered*: the caller got the refusal.
    *may_have_run_ns* is the last start in this session of a call with the same tool and arguments
    whose end is unknown, else 0.

    >>> def summary(question: Question) -> str:
    ...     return f"{question.state}: {question.tool} in session {question.session_id}"
    """

    id: str
    session_id: str
    call_id: str
    tool: str
    arguments: JsonObject = EMPTY
    digest: str
    prompt: str
    guard: str = ""
    rule: str = ""
    rules: str = ""
    definition: str = ""
    requested_tool: str = ""
    requested_arguments: JsonObject | None = None
    hidden: bool = False
    filled: tuple[str, ...] = ()
    agent_id: str = ""
    root_session_id: str = ""
    host: str = "agent"
    asked_ns: int
    expires_ns: int
    state: QuestionState = "pending"
    answered_by: str = ""
    answered_from: str = ""
    answered_ns: int = 0
    reason: str = ""
    grant: str = ""
    delivered: bool = False
    taken_by: str = ""
    taken_ns: int = 0
    ended_ns: int = 0
    settled_by: str = ""
    may_have_run_ns: int = 0

    def __post_init__(self) -> None:
        freeze_objects(self, "arguments")
        freeze_objects(self, "requested_arguments", optional=True)


def is_delegated(question: Question) -> bool:
    """Return whether a coding agent puts *question* to its own user, so its answer is unknown."""
    is_over = question.state == "done" and not (question.answered_by or question.taken_by)
    return question.state in {"hosted", "unheard"} or is_over


class Grant(Record, frozen=True, kw_only=True, omit_defaults=True):
    """An approval of every call of *tool* in a session for which *guard* asks by *rule*.

    It ends at *expires_ns* (0: with the session), by revocation, and with changed *rules* or a
    changed *definition* of the tool; it never overrides a denial.

    >>> def summary(grant: Grant) -> str:
    ...     return f"{grant.tool} in session {grant.session_id}, by {grant.granted_by}"
    """

    id: str
    session_id: str
    tool: str
    guard: str = ""
    rule: str = ""
    rules: str = ""
    definition: str = ""
    granted_by: str
    granted_from: str = ""
    granted_ns: int
    expires_ns: int = 0
    revoked_by: str = ""
    revoked_ns: int = 0
