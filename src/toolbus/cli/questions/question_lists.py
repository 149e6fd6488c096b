"""`toolbus approvals`: questions and grants as lists, one question whole, and those that come."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import asdict

from toolbus.approvals.display import label_rows, moment, question_rows
from toolbus.cli.output.blocks import print_json
from toolbus.cli.output.pager import paged
from toolbus.cli.output.screen import open_screen
from toolbus.cli.output.stream import Output
from toolbus.cli.questions.question_lookup import (
    OPEN,
    Damaged,
    find_question,
    is_in_force,
    read_grants,
    read_questions,
)
from toolbus.settings.spans import Span, sanitize
from toolbus.settings.visible_text import brief
from toolbus.store.store_factory import open_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from toolbus.approvals.questions import Grant, Question
    from toolbus.cli.output.screen import Screen
    from toolbus.settings.spans import Style
    from toolbus.store.sql_reader import SqlReader

_PAUSE = 0.5
"""Seconds between two looks at whether somebody has written."""

_STYLES: dict[str, Style] = {"pending": "asked", "approved": "good", "unknown": "bad"}
_COLUMNS = "{:<16}  {:<9}  {:<19}  {:<20}  {}"


class _QuestionLine(NamedTuple):
    """What the list says of a question, and by what it is sorted: the oldest first."""

    asked_ns: int
    id: str
    state: str
    tool: str
    session_id: str

    @classmethod
    def of(cls, question: Question) -> _QuestionLine:
        tool = brief(question.tool) if question.tool else "(a run)"
        return cls(question.asked_ns, question.id, question.state, tool, brief(question.session_id))


def list_questions(
    output: Output,
    address: str,
    *,
    closed: bool = False,
    as_json: bool = False,
    clock: Callable[[], int] = time.time_ns,
) -> int:
    """Print the questions of the store at *address* of which something is still to come.

    The oldest first, with *closed* the others as well; returns 1 if one cannot be read, else 0.
    """
    with open_reader(address) as reader:
        lines, problems = _collect(reader, clock(), closed=closed)
        if as_json:
            for line in lines:
                # Read once more: so only one is in memory, with its arguments.
                print_json(output, asdict(find_question(reader, line.id, clock())))
        else:
            _write_lines(open_screen(output), lines, closed=closed)
    return _report(problems)


def watch_questions(
    output: Output,
    address: str,
    *,
    as_json: bool = False,
    clock: Callable[[], int] = time.time_ns,
) -> int:
    """Print the open questions, and each again once its state changes, until nobody reads."""
    known: dict[str, str] = {}
    screen = open_screen(output)
    with open_reader(address, live=True) as reader:
        while not output.lost:
            # Asked first: what is written while we read is then there in the next round.
            changes = reader.changes
            for question in _changed(reader, known, clock()):
                if as_json:
                    print_json(output, asdict(question))
                else:
                    _write_line(screen, _QuestionLine.of(question))
            until = time.monotonic() + 20 * _PAUSE  # What expires does so without a write.
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
    clock: Callable[[], int] = time.time_ns,
) -> int:
    """Print all of the question *name*; return 0."""
    with open_reader(address) as reader:
        question = find_question(reader, name, clock())
    if as_json:
        print_json(output, asdict(question))
        return 0
    with paged(output, wanted=pager) as through:
        screen = open_screen(through)
        screen.line("question ", Span(brief(question.id), "strong"))
        for row in (*question_rows(question, screen.width), *state_rows(question, screen.width)):
            screen.whole(row.text, style=row.style)
    return 0


def list_grants(
    output: Output,
    address: str,
    *,
    closed: bool = False,
    as_json: bool = False,
    clock: Callable[[], int] = time.time_ns,
) -> int:
    """Print the grants in force, with *closed* the others as well; return as `list_questions`."""
    problems: list[str] = []
    grants: list[Grant] = []
    with open_reader(address) as reader:
        for grant in read_grants(reader):
            if isinstance(grant, Damaged):
                problems.append(grant.problem)
            elif closed or is_in_force(grant, clock()):
                grants.append(grant)
    screen = open_screen(output)
    for grant in sorted(grants, key=lambda each: each.granted_ns):
        if as_json:
            print_json(output, asdict(grant))
        else:
            _write_grant(screen, grant, clock())
    if not grants and not as_json:
        screen.line("no grants" if closed else "no grants in force; --all lists those that were")
    return _report(problems)


def state_rows(question: Question, width: int) -> Iterator[Span]:
    """Give what became of *question*; what people wrote of it whole, in rows of *width* cells."""
    yield Span(f"it is {question.state}{_WORDS.get(question.state, '')}", _style(question.state))
    if question.answered_by:
        where = f" ({brief(question.answered_from)})" if question.answered_from else ""
        verb = "granted" if question.grant else "answered"
        yield Span(f"{verb} {moment(question.answered_ns)} by {brief(question.answered_by)}{where}")
    if question.grant:
        yield Span(f"by grant {brief(question.grant)}")
    if question.reason:
        yield from label_rows("reason given", question.reason, width)
    if question.taken_ns:
        yield Span(f"taken {moment(question.taken_ns)} by {brief(question.taken_by)}")
    if question.ended_ns:
        yield Span(f"ended {moment(question.ended_ns)}")
    if question.settled_by:
        yield from label_rows("settled by", question.settled_by, width)


_WORDS = {
    "pending": ": nobody has answered",
    "approved": ", and the call has not run yet",
    "taken": ": the call runs, or will not go on by itself",
    "unknown": ": the call may have run, and does not run again; see `toolbus approvals settle`",
    "withdrawn": ": the call has not run, and no answer counts",
    "denied": ": the call has not run",
    "expired": ": the call has not run, and no answer counts",
    "done": ": the call has run once",
    "hosted": ": the agent asks its person itself, and nobody can answer here",
    "unheard": ": the agent asked its person, and told of no result",
}


def _style(state: str) -> Style:
    return _STYLES.get(state, "dim")


def _collect(
    reader: SqlReader, now_ns: int, *, closed: bool
) -> tuple[list[_QuestionLine], list[str]]:
    lines: list[_QuestionLine] = []
    problems: list[str] = []
    for question in read_questions(reader, now_ns):
        if isinstance(question, Damaged):
            problems.append(question.problem)
        elif closed or question.state in OPEN:
            lines.append(_QuestionLine.of(question))
    return sorted(lines), problems


def _changed(reader: SqlReader, known: dict[str, str], now_ns: int) -> list[Question]:
    """Return what is new since *known*, which holds the states of open questions."""
    changed: list[Question] = []
    for question in read_questions(reader, now_ns):
        if isinstance(question, Damaged) or known.get(question.id) == question.state:
            continue
        if question.state in OPEN:
            known[question.id] = question.state
        elif known.pop(question.id, None) is None:
            continue
        changed.append(question)
    return sorted(changed, key=lambda each: (each.asked_ns, each.id))


def _write_lines(screen: Screen, lines: Iterable[_QuestionLine], *, closed: bool) -> None:
    count = 0
    for count, line in enumerate(lines, 1):
        if count == 1:
            head = _COLUMNS.format("question", "state", "asked (UTC)", "tool", "session")
            screen.line(Span(head, "dim"))
        _write_line(screen, line)
    if not count:
        screen.line("no questions" if closed else "no open questions; --all lists the others")


def _write_line(screen: Screen, line: _QuestionLine) -> None:
    asked = moment(line.asked_ns).removesuffix(" UTC")
    cells = (brief(line.id), line.state, asked, line.tool, line.session_id)
    screen.whole(_COLUMNS.format(*cells), style=_style(line.state))


def _write_grant(screen: Screen, grant: Grant, now_ns: int) -> None:
    state = "in force" if is_in_force(grant, now_ns) else "revoked" if grant.revoked_ns else "over"
    until = f"until {moment(grant.expires_ns)}" if grant.expires_ns else "until its session ends"
    screen.line(Span(brief(grant.id), "strong"), f"  {state}, {until} or its rules change")
    about = f"each call of {brief(grant.tool)} in session {brief(grant.session_id)}"
    rule = f" by the rule {brief(grant.rule)}" if grant.rule else ""
    screen.prose(f"{about} about which {brief(grant.guard) or 'a guard'} asks{rule}", indent=2)
    where = f" ({brief(grant.granted_from)})" if grant.granted_from else ""
    granted = f"granted {moment(grant.granted_ns)} by {brief(grant.granted_by)}{where}"
    revoked = f", revoked by {brief(grant.revoked_by)}" if grant.revoked_ns else ""
    screen.prose(f"{granted}{revoked}", indent=2, style="dim")


def _report(problems: Iterable[str]) -> int:
    """Write *problems* to standard error, and return the exit code."""
    code = 0
    for problem in problems:
        Output(sys.stderr).write(f"toolbus: {sanitize(problem)}\n")
        code = 1
    return code
