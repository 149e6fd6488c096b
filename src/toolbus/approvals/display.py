"""A question as rows of text: the whole call as it would run, then the reason and the origin.

Text of a model, a tool or a guard is in rows that begin with "│", with every character visible
(`toolbus.settings.visible_text`); all other rows are our own words.
"""

from __future__ import annotations

import re
import textwrap
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toolbus.approvals.grants import granting_session
from toolbus.messages.records import encode
from toolbus.settings.differences import differences
from toolbus.settings.spans import Span
from toolbus.settings.visible_text import make_visible, quote_rows, shorten_visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.approvals.grants import GrantSpan
    from toolbus.approvals.questions import Question
    from toolbus.settings.spans import Style

_LONGEST_NAME = 40
_PLAIN_NAME = re.compile(r"[\w$.\[\]\\/:-]+", re.ASCII)
_WORDS = re.compile(r"[\w.-]+(?: [\w.-]+)*", re.ASCII)
_UNCHANGED = "as the model wrote it"
_STATE_WORDS = {
    "pending": ", without an answer",
    "approved": ", and the call has not run yet",
    "taken": ", the call is running, or will not continue by itself",
    "unknown": ", the call may have run and does not run again; see `toolbus approvals settle`",
    "withdrawn": ", the call has not run, and an answer has no effect",
    "denied": ", the call has not run",
    "expired": ", the call has not run, and an answer has no effect",
    "done": ", the call has run once",
    "hosted": ", the coding agent asks its own user; it cannot be answered here",
    "unheard": ", no result was reported, so the user most likely refused it",
}
_STYLES: dict[str, Style] = {"pending": "asked", "approved": "good", "unknown": "bad"}


class ChannelText(NamedTuple):
    """The text of a question for a channel, which must not accept a yes unless it *is_whole*."""

    text: str
    is_whole: bool


def channel_text(question: Question, limit: int, width: int = 80) -> ChannelText:
    """Return *question* as text of at most *limit* characters, or a notice if it does not fit."""
    # The receiver of an answer makes the same text later, maybe in another time zone.
    text = "\n".join([row.text for row in question_rows(question, width, utc=True)])
    if len(text) <= limit:
        return ChannelText(text, is_whole=True)
    notice = (
        f"question {shorten_visible(question.id)} is pending; it is too long for this channel "
        f"({len(text):,} characters), so it cannot be approved here"
    )
    return ChannelText(notice[:limit], is_whole=False)


def question_rows(
    question: Question,
    width: int,
    notes: Sequence[Span] = (),
    *,
    place: bool = True,
    details: bool = False,
    utc: bool = False,
) -> list[Span]:
    """Return *question* in rows: the call, changes of it, why approval is needed, the *notes*.

    The last rows are the origin, without *place* only the guards and rules, in *utc* or local time;
    with *details* also the id, the exact times and the digest that an answer names.
    """
    return [
        *_heading(question, width),
        *_call_rows(question, width),
        *_request_rows(question, width),
        *label_rows("why asked", question.prompt, width),
        *notes,
        *_origin(question, width, place=place or details, utc=utc),
        *(_details(question, width) if details else ()),
    ]


def state_rows(question: Question, width: int) -> Iterator[Span]:
    """Yield the state of *question* and its answer, in rows of *width* cells."""
    yield Span(f"state: {state_words(question)}", state_style(question.state))
    if question.answered_by:
        by = shorten_visible(question.answered_by)
        where = f" ({shorten_visible(question.answered_from)})" if question.answered_from else ""
        verb = "granted" if question.grant else "answered"
        yield Span(f"{verb} {moment(question.answered_ns)} by {by}{where}")
    if question.grant:
        yield Span(f"by grant {shorten_visible(question.grant)}")
    if question.reason:
        yield from label_rows("reason given", question.reason, width)
    if question.taken_ns:
        yield Span(f"started {moment(question.taken_ns)} by {shorten_visible(question.taken_by)}")
    if question.ended_ns:
        yield Span(f"ended {moment(question.ended_ns)}")
    if question.settled_by:
        yield from label_rows("settled by", question.settled_by, width)


def state_words(question: Question) -> str:
    """Return the state of *question* with its meaning."""
    return f"{question.state}{_STATE_WORDS.get(question.state, '')}"


def state_style(state: str) -> Style:
    """Return the style of a state of questions."""
    return _STYLES.get(state, "dim")


def grant_words(question: Question, grant: GrantSpan) -> str:
    """Return the sentence on the further calls that a yes with *grant* allows."""
    how_long = "until it ends" if isinstance(grant, str) else f"for {grant:,g} seconds"
    # A server may name its tool by words that would change this sentence.
    tool, session = (
        repr(name) if " " in name else name
        for name in map(shorten_visible, (question.tool, granting_session(question)))
    )
    return (
        f"a yes allows every call of {tool or 'a run'}, whatever its arguments, "
        f"in session {session}, {how_long}, if the same guard asks by the same rule"
    )


def value_rows(value: Any, width: int) -> tuple[str, list[str]]:
    """Return a note on a JSON *value*, "" for plain text, and its rows of *width* cells.

    The note of a text names escaped characters; that of another value names its type.
    """
    if isinstance(value, str):
        shown = make_visible(value)
        notes = shown.notes if value else ("an empty text",)
        return "; ".join(notes), quote_rows(shown.text, width)
    body = encode(value)
    if isinstance(value, dict | list | tuple) and value:
        body = msgspec.json.format(body, indent=2)
    shown = make_visible(body.decode())
    return "; ".join([_kind(value), *shown.notes]), quote_rows(shown.text, width)


def line_rows(text: str, width: int, style: Style = "") -> Iterator[Span]:
    """Yield *text*, our own words, in rows of at most *width* cells; no row for an empty text."""
    # Other characters may be two cells wide.
    width = width if text.isascii() else width // 2
    for line in textwrap.wrap(text, width, subsequent_indent="    "):
        yield Span(line, style)


def label_rows(label: str, value: Any, width: int) -> Iterator[Span]:
    """Yield a value under a *label*, which contains a space; names of arguments contain none."""
    note, rows = value_rows(value, width)
    yield from line_rows(f"{label} ({note})" if note else label, width, "strong")
    yield from map(Span, rows)


def moment(time_ns: int) -> str:
    """Return a time since the epoch as UTC, to the second."""
    return f"{datetime.fromtimestamp(time_ns // 10**9, UTC):%Y-%m-%d %H:%M:%S} UTC"


def local_moment(time_ns: int, now_ns: int) -> str:
    """Return a time since the epoch in the local time zone, with the date unless it is today's."""
    then, now = (datetime.fromtimestamp(each // 10**9).astimezone() for each in (time_ns, now_ns))
    return f"{then:%H:%M %Z}" if then.date() == now.date() else f"{then:%Y-%m-%d %H:%M %Z}"


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    kinds = ((bool, "true or false"), (dict, "an object"), ((list, tuple), "a list"))
    return next((name for types, name in kinds if isinstance(value, types)), "a number")


def _heading(question: Question, width: int) -> Iterator[Span]:
    if not question.tool:
        yield from line_rows("may this run begin?", width, "asked")
    elif _is_plain(question.tool):
        yield from line_rows(f"the model calls {question.tool}", width, "asked")
    else:
        yield from label_rows("the model calls the tool", question.tool, width)
    if question.may_have_run_ns:
        earlier = local_moment(question.may_have_run_ns, time.time_ns())
        text = f"a call like this may have run at {earlier}; its result is not known"
        yield from line_rows(text, width, "bad")


def _origin(question: Question, width: int, *, place: bool, utc: bool) -> Iterator[Span]:
    above, now = question.root_session_id, time.time_ns()
    is_below = above not in {"", question.session_id}
    # One line for each guard; the line of a guard without a rule is empty.
    names = {
        label: [line for line in lines.split("\n") if line]
        for label, lines in (("asked by", question.guard), ("by the rule", question.rule))
    }
    if place or is_below:
        names |= {
            "of": [question.host] if question.host != "agent" else [],
            "by agent": [question.agent_id] if question.agent_id else [],
            "in session": [question.session_id],
            "below session": [above] if is_below else [],
        }
    shown = {label: [*map(_short_name, lines)] for label, lines in names.items() if lines}
    facts = [f"{label} {', '.join(short)}" for label, short in shown.items() if all(short)]
    times = {"asked": question.asked_ns, "expires": question.expires_ns} if place else {}
    for label, time_ns in times.items():
        if time_ns:
            facts.append(f"{label} {moment(time_ns) if utc else local_moment(time_ns, now)}")
    yield from line_rows(", ".join(facts), width, "dim")
    for label, short in shown.items():
        if not all(short):
            yield from label_rows(label, "\n".join(names[label]), width)


def _short_name(name: str) -> str:
    """Return *name* for a row of ours, in quotes if it has spaces; "" if it needs a row itself."""
    if _is_plain(name):
        return name
    return f"'{name}'" if len(name) <= _LONGEST_NAME and _WORDS.fullmatch(name) else ""


def _details(question: Question, width: int) -> Iterator[Span]:
    times = f"asked {moment(question.asked_ns)}"
    if question.expires_ns:
        times += f", expires {moment(question.expires_ns)}"
    yield from line_rows(times, width, "dim")
    for label, name in (("question", question.id), ("digest", question.digest)):
        yield from line_rows(f"{label} {make_visible(name, one_line=True).text}", width, "dim")


def _call_rows(question: Question, width: int) -> Iterator[Span]:
    for name, value in question.arguments.items():
        note, rows = value_rows(value, width)
        yield from _name_rows(name, width, note)
        yield from map(Span, rows)
    if question.tool and not question.arguments:
        yield Span("no arguments", "dim")
    if question.hidden:
        text = "some values were hidden before it was stored; only the calling program has them"
        yield from line_rows(text, width, "changed")
    if question.filled:
        yield from line_rows("the tool gets other values, not shown here, at", width)
        for path in question.filled:
            yield from _name_rows(path, width)


def _request_rows(question: Question, width: int) -> Iterator[Span]:
    """Yield the differences between the call and the model's own version of it."""
    requested = question.requested_arguments
    if requested is None:
        return
    before = {"tool": question.requested_tool or question.tool, "arguments": requested}
    after = {"tool": question.tool, "arguments": question.arguments}
    changes = list(differences(before, after))
    if not changes:
        yield from line_rows(_UNCHANGED, width, "dim")
        return
    yield from line_rows(f"not {_UNCHANGED}; it differs in", width, "changed")
    for change in changes:
        yield from _name_rows(change.path, width)
        for side, value in (("the model wrote", change.before), ("it is now", change.after)):
            if value is msgspec.UNSET:
                yield from line_rows(f"{side}: nothing", width, "strong")
            else:
                yield from label_rows(side, value, width)


def _name_rows(name: str, width: int, value_note: str | None = None) -> Iterator[Span]:
    """Yield the row of a name; a long name, or one with other characters, is quoted as a value.

    With *value_note* the rows of its value follow.
    """
    line, suffix = make_visible(name, one_line=True).text, f" ({value_note})" if value_note else ""
    if _is_plain(line) and len(line) <= width // 2:
        yield from line_rows(f"{line}{suffix}", width, "strong")
        return
    yield from line_rows(f"a name of {len(name):,} characters", width, "changed")
    yield from map(Span, quote_rows(line, width))
    if value_note is not None:
        yield from line_rows(f"its value{suffix}", width, "strong")


def _is_plain(name: str) -> bool:
    """Return whether *name* may be part of our own rows: short ASCII without a space."""
    return len(name) <= _LONGEST_NAME and _PLAIN_NAME.fullmatch(name) is not None
