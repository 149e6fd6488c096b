"""The answer that a person types to a question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from toolbus.approvals.display import grant_words
from toolbus.approvals.steps import LONGEST_WORDS
from toolbus.cli.questions.keyboard import INTERRUPT
from toolbus.errors import FreezeError
from toolbus.history.durations import seconds_in
from toolbus.messages.immutable import check_text
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    from toolbus.approvals.grants import GrantSpan
    from toolbus.cli.questions.keyboard import Keyboard
    from toolbus.cli.questions.question_pages import QuestionPages

Meaning: TypeAlias = Literal["yes", "no", "next", "details", "help", "leave", "unclear"]

YES = frozenset({"y", "yes"})
_NOT_SEEN = "a yes counts only after the last page; Enter shows the next page"
_UNCLEAR = "not an answer; ? lists the answers"
_HELP = """\
y              run the call once
n              {no}
v              show the question again, with its id, exact times and digest
"""
_GRANT_HELP = """\
session        yes, and to all calls like it until the session ends
for 1h         the same for a time: 90s, 30m, 1h or 2d
"""


class TypedAnswer(NamedTuple):
    """The *meaning* of a typed line; a yes may come with a *grant*.

    *reason* is the reason of a no, or why the line is unclear.
    """

    meaning: Meaning
    reason: str = ""
    grant: GrantSpan | None = None


class Choices(NamedTuple):
    """The answers beside y, n and v: grants, and Enter to skip.

    *ending* explains Ctrl-D, *no* explains n.
    """

    ending: str
    may_grant: bool = True
    may_skip: bool = False
    no: str = "refuse the call; the model reads the text after n"

    @property
    def help(self) -> str:
        """The lines that ? shows."""
        return f"{_HELP.format(no=self.no)}{_GRANT_HELP if self.may_grant else ''}{self.ending}\n"


async def read_decision(
    keyboard: Keyboard, pages: QuestionPages, choices: Choices
) -> TypedAnswer | None:
    """Show *pages*, and return a yes to all of them or a no; None if nothing was answered.

    A "next" is returned for a question that the person skips.
    """
    # An answer counts only for pages that were seen before it, so one loop follows both.
    typed = TypedAnswer("next")
    while True:
        _respond(keyboard, pages, typed, choices.help)
        was_seen = pages.is_seen
        line = await keyboard.ask(pages.asks)
        if line is None:
            return None
        typed = read_answer(line)
        if typed.grant is not None and not choices.may_grant:
            typed = TypedAnswer("unclear", "a grant is not possible here")
        match typed.meaning:
            case "no":
                return typed
            case "yes" if was_seen and pages.is_seen and await _is_meant(keyboard, pages, typed):
                return typed
            case "next" if was_seen and choices.may_skip:
                return typed
            case "leave" if choices.may_skip:
                return None


async def _is_meant(keyboard: Keyboard, pages: QuestionPages, typed: TypedAnswer) -> bool:
    """Return whether the person confirms the grant of *typed*, if there is one."""
    if typed.grant is None:
        return True
    pages.say(grant_words(pages.question, typed.grant))
    line = await keyboard.ask("approve all of that? [y, n] ")
    return (line or "n").strip().lower() in YES


def _respond(keyboard: Keyboard, pages: QuestionPages, typed: TypedAnswer, help_text: str) -> None:
    """Show the page that *typed* asks for, or explain why it is not an answer."""
    match typed.meaning:
        case "next" | "details":
            if typed.meaning == "details":
                pages.restart(details=True)
            try:
                pages.show_next()
            except UsageError as error:
                pages.say(str(error))
        case "yes" if not pages.is_seen:
            pages.say(_NOT_SEEN)
        case "help":
            keyboard.write(help_text)
        case "unclear" | "leave":
            pages.say(typed.reason or _UNCLEAR)


def read_answer(line: str) -> TypedAnswer:
    """Return the meaning of *line*; a reason that cannot be kept makes it unclear."""
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
            return TypedAnswer("details")
        case ("q", ""):
            return TypedAnswer("leave")
        case (("?" | "h" | "help"), ""):
            return TypedAnswer("help")
    return TypedAnswer("unclear")


def _refusal(reason: str) -> TypedAnswer:
    try:
        check_reason(reason)
    except UsageError as error:
        return TypedAnswer("unclear", str(error))
    return TypedAnswer("no", reason)


def check_reason(reason: str) -> None:
    """Raise `UsageError` for a reason that cannot be kept."""
    if len(reason) > LONGEST_WORDS:
        raise UsageError(f"the reason is longer than {LONGEST_WORDS:,} characters; shorten it")
    try:
        check_text(reason, "the reason")
    except FreezeError as error:
        raise UsageError(f"the reason cannot be kept: {error.reason}") from error
