"""`toolbus approvals review`: a person goes through what waits, and through what comes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from toolbus.cli.output.screen import open_screen
from toolbus.cli.questions.approving import (
    ApprovalTarget,
    answer_question,
    open_question,
    show_pages,
)
from toolbus.cli.questions.question_lookup import Damaged, read_questions
from toolbus.cli.questions.typed_answers import YES, check_reason
from toolbus.presence.person import person_terminal
from toolbus.settings.usage_error import UsageError
from toolbus.settings.visible_text import brief
from toolbus.store.store_factory import open_reader

if TYPE_CHECKING:
    from toolbus.cli.output.stream import Output
    from toolbus.presence.person import PersonTerminal
    from toolbus.store.sql_reader import SqlReader

_PAUSE = 0.5
"""Seconds between two looks at whether somebody has asked."""

_KEYS = "[y, n, n and a reason, Enter leaves it, q ends] "


def review(output: Output, address: str, *, watch: bool = False) -> int:
    """Put each pending question to the person at the terminal, the oldest first; return 0.

    With *watch* also those that come, until the person ends it.
    """
    asked: set[str] = set()
    with person_terminal() as terminal, open_reader(address, live=True) as reader:
        while not output.lost:
            # Asked first: what comes while we ask is then there in the next round.
            changes = reader.changes
            for name in _pending(reader, asked):
                asked.add(name)
                if not _ask(output, terminal, ApprovalTarget(address, name)):
                    return 0
            if not watch:
                break
            while not output.lost and reader.changes == changes:
                output.rest(_PAUSE)
    if not asked:
        open_screen(output).line("nothing waits")
    return 0


def _pending(reader: SqlReader, asked: set[str]) -> list[str]:
    """Return the ids of the questions that wait, but for those of *asked*, the oldest first."""
    waiting = [
        (question.asked_ns, question.id)
        for question in read_questions(reader, time.time_ns())
        if not isinstance(question, Damaged)
        and question.state == "pending"
        and question.id not in asked
    ]
    return [name for _, name in sorted(waiting)]


def _ask(output: Output, terminal: PersonTerminal, target: ApprovalTarget) -> bool:
    """Ask about one question; return whether to go on with the next one."""
    screen = open_screen(output)
    try:
        question = open_question(target)
    except UsageError as error:  # It was answered elsewhere, or is damaged.
        screen.whole(str(error), style="bad")
        return True
    asks = f"approve {brief(question.id)}? {_KEYS}"
    if not show_pages(terminal, question, asks=asks):
        return False
    while True:
        line = terminal.ask(asks)
        word, _, reason = (line or "").strip().partition(" ")
        match word.lower():
            case "":
                return line is not None
            case "q":
                return False
            case word if word in YES and not reason:
                answer_question(output, target, question, terminal, is_yes=True)
                return True
            case "n" | "no":
                try:
                    check_reason(reason.strip())
                except UsageError as error:
                    screen.whole(str(error), style="bad")
                    continue
                denial = target._replace(reason=reason.strip())
                answer_question(output, denial, question, terminal, is_yes=False)
                return True
            case _:
                screen.whole(f"that is no answer; there is {_KEYS.strip()}", style="bad")
