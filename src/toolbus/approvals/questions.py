"""A question that waits for a person: a record in the store, and the states of its life.

| state | signal | next |
|---|---|---|
| pending | approve | approved |
| pending | deny | denied |
| pending | expire | expired |
| pending | withdraw | withdrawn |
| pending | waive | taken |
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

A question that a coding agent puts to its person itself is *hosted*: nobody can answer it here, no
yes to it is ever taken, and what the person said is not known. It is *done* once the host told of
the result, and *unheard* if the session went on without one: refused, most likely.

Each step is one `swap_state` of the store, so of two at once exactly one counts. Before *taken*
the call has not run; *done* says that it ran once; *taken* and *unknown* that it may have run, and
it is never run again by itself. Waived is a question about which nobody asks any more when its call
goes on: that may run then.
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
    "waive",
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
        "waive": "taken",
    },
    "approved": {"take": "taken", "expire": "expired", "withdraw": "withdrawn"},
    "taken": {"end": "done", "lose": "unknown"},
    "unknown": {"settle_ran": "done", "settle_never_ran": "withdrawn"},
    "hosted": {"end": "done", "lose": "unheard"},
    "unheard": {"end": "done"},
}
"""The whole of its life; what is missing here is an end."""

PREFIX, GRANT_PREFIX, ATTACH_PREFIX = "question:", "grant:", "asked:"
"""What the names begin with, under which questions, grants and the latest question about a call
are kept beside the messages of their session."""


class Question(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What a person is asked, and what became of it; times are nanoseconds since the epoch, UTC.

    *tool* and *arguments* are the call as it would run, with placeholders where redaction put
    them; *tool* is empty for a run, whose prompt is the argument `prompt`. *hidden* says that the
    stored arguments are not all that the tool would get and cannot be filled in again: only who
    makes the call with them runs it. *filled* are the JSON paths at which the tool gets values that
    nobody is shown, such as secrets in place of their names. *requested* is the call as the model
    wrote it, if that differs.
    *digest* is that of tool and arguments as they stand here; *rules* that of the rules in force,
    *definition* that of the tool's name, description and parameters, empty if they are not known.
    *delivered* says that the caller has heard of the refusal. *may_have_run_ns* is when the same
    tool was last begun in this session with the same arguments, if its end is not known; else 0.

    >>> def brief(question: Question) -> str:
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
    """Tell whether a coding agent put *question* to its person itself, so that no yes is known."""
    is_over = question.state == "done" and not (question.answered_by or question.taken_by)
    return question.state in {"hosted", "unheard"} or is_over


class Grant(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A yes to every call of *tool* in a session about which *guard* asks by *rule*.

    It ends at *expires_ns* (0: with the session), when it is revoked, and with changed *rules* or
    another *definition* of the tool; it never lifts a denial.

    >>> def brief(grant: Grant) -> str:
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
