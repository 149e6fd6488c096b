"""What a person types as the answer to a question, and who that is; the same wherever one asks."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from toolbus.approvals.grants import granting_session
from toolbus.approvals.steps import LONGEST_WORDS
from toolbus.cli.output.durations import seconds_in
from toolbus.cli.questions.keyboard import INTERRUPT
from toolbus.errors import FreezeError
from toolbus.messages.immutable import check_text
from toolbus.settings.usage_error import UsageError
from toolbus.settings.visible_text import brief

if TYPE_CHECKING:
    from toolbus.approvals.grants import GrantSpan
    from toolbus.approvals.questions import Question

Meaning: TypeAlias = Literal["yes", "no", "next", "again", "help", "unclear"]

YES = frozenset({"y", "yes"})
_LEAST_COLUMNS, _LEAST_ROWS = 20, 6


class TypedAnswer(NamedTuple):
    """What somebody wants who typed a line; with a yes perhaps a *grant*.

    A *reason* is that of a no, or why the line is unclear.
    """

    meaning: Meaning
    reason: str = ""
    grant: GrantSpan | None = None


def read_answer(line: str) -> TypedAnswer:
    """Return what *line* says; of a reason that cannot be kept, that it is unclear, and why."""
    if line == INTERRUPT:
        return TypedAnswer("no")
    word, _, rest = line.strip().partition(" ")
    match word.lower(), rest.strip():
        case (("y" | "yes"), ""):
            return TypedAnswer("yes")
        case (("n" | "no"), reason):
            return _refusal(reason)
        case ("session", ""):
            return TypedAnswer("yes", grant="session")
        case ("for", time) if (seconds := seconds_in(time)) is not None:
            return TypedAnswer("yes", grant=seconds)
        case ("", ""):
            return TypedAnswer("next")
        case ("v", ""):
            return TypedAnswer("again")
        case (("?" | "h" | "help"), ""):
            return TypedAnswer("help")
    return TypedAnswer("unclear")


def _refusal(reason: str) -> TypedAnswer:
    try:
        check_reason(reason)
    except UsageError as error:
        return TypedAnswer("unclear", str(error))
    return TypedAnswer("no", reason)


def person_name() -> str:
    """Return who answers: the name of the account, which no variable changes."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"


def check_reason(reason: str) -> None:
    """Raise `UsageError` for a reason that cannot be kept."""
    if len(reason) > LONGEST_WORDS:
        raise UsageError(f"the reason is longer than {LONGEST_WORDS:,} characters; say it shorter")
    try:
        check_text(reason, "the reason")
    except FreezeError as error:
        raise UsageError(f"the reason cannot be kept: {error.reason}") from error


def check_room(columns: int, rows: int) -> None:
    """Raise `UsageError` for a terminal in which no question can be shown."""
    if columns < _LEAST_COLUMNS or rows < _LEAST_ROWS:
        size = f"{columns} columns and {rows} rows"
        raise UsageError(f"the terminal is too small to show a question ({size}); make it larger")


def grant_words(question: Question, grant: GrantSpan) -> str:
    """Return what more a yes with *grant* allows."""
    how_long = "until it ends" if isinstance(grant, str) else f"for {grant:,g} seconds"
    return (
        f"a yes is one to every call of {brief(question.tool) or 'a run'}, whatever its arguments, "
        f"in session {brief(granting_session(question))}, {how_long}, about which the same guard "
        "asks by the same rule"
    )
