"""`toolbus approvals list`, `show` and `grants`."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from msgspec.structs import asdict, replace

from toolbus.approvals.display import moment, question_rows, state_rows, state_style
from toolbus.approvals.question_lookup import (
    OPEN,
    Damaged,
    find_question,
    is_active,
    read_grants,
    read_questions,
)
from toolbus.cli.output.blocks import print_json
from toolbus.cli.output.pager import paged
from toolbus.cli.output.screen import open_screen
from toolbus.cli.output.stream import Output
from toolbus.messages.immutable import EMPTY
from toolbus.settings.spans import Span, sanitize
from toolbus.settings.visible_text import shorten_visible
from toolbus.store.store_factory import open_reader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolbus.approvals.questions import Grant, Question
    from toolbus.cli.output.screen import Screen
    from toolbus.store.sql_reader import SqlReader

_PAUSE = 0.5
"""Seconds between two checks for changes."""

_COLUMNS = "{:<16}  {:<9}  {:<19}  {:<20}  {}"


def list_questions(
    output: Output,
    address: str,
    *,
    closed: bool = False,
    as_json: bool = False,
) -> int:
    """Print the open questions at *address*, the oldest first; *closed* adds the others.

    Returns 1 if a question cannot be read, else 0.
    """
    questions: list[Question] = []
    problems: list[str] = []
    with open_reader(address) as reader:
        for question in read_questions(reader, time.time_ns()):
            if isinstance(question, Damaged):
                problems.append(question.problem)
            elif closed or question.state in OPEN:
                # Arguments may be large: for JSON they are read again, one question at a time.
                questions.append(replace(question, arguments=EMPTY, requested_arguments=None))
        questions.sort(key=_age)
        if as_json:
            for each in questions:
                print_json(output, asdict(find_question(reader, each.id, time.time_ns())))
    screen = open_screen(output)
    if questions and not as_json:
        head = _COLUMNS.format("question", "state", "asked (UTC)", "tool", "session")
        screen.line(Span(head, "dim"))
        for each in questions:
            _write_line(screen, each)
    elif not as_json:
        screen.line("no questions" if closed else "no open questions; --all lists the others")
    return _report(problems)


def watch_questions(output: Output, address: str, *, as_json: bool = False) -> int:
    """Print the open questions, and each again when its state changes, until the output closes."""
    known: dict[str, str] = {}
    screen = open_screen(output)
    with open_reader(address, live=True) as reader:
        while not output.lost:
            # Read first: the next round sees a question that is written meanwhile.
            changes = reader.changes
            for question in _changed(reader, known, time.time_ns()):
                if as_json:
                    print_json(output, asdict(question))
                else:
                    _write_line(screen, question)
            until = time.monotonic() + 20 * _PAUSE  # A question expires without a write.
            while not output.lost and reader.changes == changes and time.monotonic() < until:
                output.rest(_PAUSE)
    return 0


def show_question(
    output: Output,
    address: str,
    name: str,
    *,
    as_json: bool = False,
    pager: bool = True,
    details: bool = False,
) -> int:
    """Print the whole question *name*, with its *details* if asked for; return 0."""
    with open_reader(address) as reader:
        question = find_question(reader, name, time.time_ns())
    if as_json:
        print_json(output, asdict(question))
        return 0
    with paged(output, wanted=pager) as through:
        screen = open_screen(through)
        screen.line("question ", Span(shorten_visible(question.id), "strong"))
        rows = question_rows(question, screen.width, details=details)
        for row in (*rows, *state_rows(question, screen.width)):
            screen.whole(row.text, style=row.style)
    return 0


def list_grants(
    output: Output, address: str, *, closed: bool = False, as_json: bool = False
) -> int:
    """Print the active grants; *closed* adds the others. Return as `list_questions`."""
    problems: list[str] = []
    grants: list[Grant] = []
    with open_reader(address) as reader:
        for grant in read_grants(reader):
            if isinstance(grant, Damaged):
                problems.append(grant.problem)
            elif closed or is_active(grant, time.time_ns()):
                grants.append(grant)
    screen = open_screen(output)
    for grant in sorted(grants, key=lambda each: each.granted_ns):
        if as_json:
            print_json(output, asdict(grant))
        else:
            _write_grant(screen, grant, time.time_ns())
    if not grants and not as_json:
        screen.line("no grants" if closed else "no active grants; --all lists the others")
    return _report(problems)


def _age(question: Question) -> tuple[int, str]:
    return question.asked_ns, question.id


def _changed(reader: SqlReader, known: dict[str, str], now_ns: int) -> list[Question]:
    """Return the questions whose states differ from *known*, the states of open questions."""
    changed: list[Question] = []
    for question in read_questions(reader, now_ns):
        if isinstance(question, Damaged) or known.get(question.id) == question.state:
            continue
        if question.state in OPEN:
            known[question.id] = question.state
        elif known.pop(question.id, None) is None:
            continue
        changed.append(question)
    return sorted(changed, key=_age)


def _write_line(screen: Screen, question: Question) -> None:
    tool = shorten_visible(question.tool) if question.tool else "(a run)"
    names = shorten_visible(question.id), shorten_visible(question.session_id)
    asked = moment(question.asked_ns).removesuffix(" UTC")
    row = _COLUMNS.format(names[0], question.state, asked, tool, names[1])
    screen.whole(row, style=state_style(question.state))


def _write_grant(screen: Screen, grant: Grant, now_ns: int) -> None:
    state = "active" if is_active(grant, now_ns) else "revoked" if grant.revoked_ns else "over"
    until = f"until {moment(grant.expires_ns)}" if grant.expires_ns else "until its session ends"
    screen.line(
        Span(shorten_visible(grant.id), "strong"), f"  {state}, {until} or its rules change"
    )
    guard, rule = (
        ", ".join([shorten_visible(line) for line in lines.split("\n") if line])
        for lines in (grant.guard, grant.rule)
    )
    about = (
        f"each call of {shorten_visible(grant.tool)} in session {shorten_visible(grant.session_id)}"
    )
    by = f" by the rule {rule}" if rule else ""
    screen.prose(f"{about} for which {guard or 'a guard'} asks{by}", indent=2)
    where = f" ({shorten_visible(grant.granted_from)})" if grant.granted_from else ""
    granted = f"granted {moment(grant.granted_ns)} by {shorten_visible(grant.granted_by)}{where}"
    revoked = f", revoked by {shorten_visible(grant.revoked_by)}" if grant.revoked_ns else ""
    screen.prose(f"{granted}{revoked}", indent=2, style="dim")


def _report(problems: Iterable[str]) -> int:
    """Write *problems* to standard error, and return the exit code."""
    code = 0
    for problem in problems:
        Output(sys.stderr).write(f"toolbus: {sanitize(problem)}\n")
        code = 1
    return code
