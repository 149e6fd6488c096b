"""A question as a person is shown it, in rows and pages: the call as it would run, all of it.

What a model, a tool or a guard wrote stands in rows that begin with "│", with every character
visible (`toolbus.settings.visible_text`); all else on a page is ours.
"""

from __future__ import annotations

import re
import textwrap
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toolbus.messages.records import encode
from toolbus.settings.differences import differences
from toolbus.settings.spans import Span
from toolbus.settings.visible_text import brief, make_visible, quote_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.approvals.questions import Question
    from toolbus.settings.spans import Style

_LONGEST_NAME = 40
_PLAIN_NAME = re.compile(r"[\w$.\[\]\\/:-]+", re.ASCII)
_UNCHANGED = "as the model wrote it"


class ChannelText(NamedTuple):
    """What a channel shows of a question; unless it *is_whole*, a yes must not be taken there."""

    text: str
    is_whole: bool


def channel_text(question: Question, limit: int, width: int = 80) -> ChannelText:
    """Return *question* as text of at most *limit* characters, or a notice if it does not fit."""
    text = "\n".join([row.text for row in question_rows(question, width)])
    if len(text) <= limit:
        return ChannelText(text, is_whole=True)
    notice = (
        f"question {brief(question.id)} waits; it is too long for this channel "
        f"({len(text):,} characters), so it cannot be approved here"
    )
    return ChannelText(notice[:limit], is_whole=False)


def question_rows(question: Question, width: int, notes: Sequence[Span] = ()) -> list[Span]:
    """Return *question* in rows: the call, why it is asked about, what the model wrote instead.

    Behind the *notes* of the channel stand the origin, the times and the digest.
    """
    return [
        *_heading(question, width),
        *label_rows("why asked", question.prompt, width),
        *_call_rows(question, width),
        *_request_rows(question, width),
        *notes,
        *_origin(question, width),
        *line_rows(f"digest {make_visible(question.digest, one_line=True).text}", width, "dim"),
    ]


def value_rows(value: Any, width: int) -> tuple[str, list[str]]:
    """Return what is to be said of a JSON *value*, "" if nothing, and its rows of *width* cells.

    A text stands as it is, unless somebody would not see what it is: then it says so.
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
    """Give a *text* of ours in rows of at most *width* cells; none for an empty one."""
    # Other characters may be two cells wide.
    width = width if text.isascii() else width // 2
    for line in textwrap.wrap(text, width, subsequent_indent="    "):
        yield Span(line, style)


def label_rows(label: str, value: Any, width: int) -> Iterator[Span]:
    """Give a value under a *label* of ours, which has a blank, as names of others have none."""
    note, rows = value_rows(value, width)
    yield from line_rows(f"{label} ({note})" if note else label, width, "strong")
    yield from map(Span, rows)


def moment(time_ns: int) -> str:
    """Return a time since the epoch as UTC, to the second."""
    return f"{datetime.fromtimestamp(time_ns // 10**9, UTC):%Y-%m-%d %H:%M:%S} UTC"


def local_moment(time_ns: int, now_ns: int) -> str:
    """Return a time since the epoch in the zone of this machine, with a date other than today's."""
    then, now = (datetime.fromtimestamp(each // 10**9).astimezone() for each in (time_ns, now_ns))
    date = "" if then.date() == now.date() else f"{then:%Y-%m-%d} "
    return f"{date}{then:%H:%M %Z}"


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case dict():
            return "an object"
        case list() | tuple():
            return "a list"
    return "a number"


def _heading(question: Question, width: int) -> Iterator[Span]:
    if not question.tool:
        yield from line_rows("may this run begin?", width, "asked")
    elif _is_plain(question.tool):
        yield from line_rows(f"the model calls {question.tool}", width, "asked")
    else:
        yield from label_rows("the model calls the tool", question.tool, width)
    if question.may_have_run_ns:
        earlier = local_moment(question.may_have_run_ns, time.time_ns())
        text = f"a call like this may have run at {earlier}; its end is not known"
        yield from line_rows(text, width, "bad")


def _origin(question: Question, width: int) -> Iterator[Span]:
    above = question.root_session_id
    names = {
        "in session": question.session_id,
        "of": question.host if question.host != "agent" else "",
        "by agent": question.agent_id,
        "below session": above if above != question.session_id else "",
    }
    plain = [f"{label} {name}" for label, name in names.items() if _is_plain(name)]
    # Of several askers each has a line, an empty one without a rule.
    for label, lines in (("asked by", question.guard), ("by the rule", question.rule)):
        askers = [line for line in lines.split("\n") if line]
        if all(map(_is_plain, askers)):
            plain += [f"{label} {', '.join(askers)}"] if askers else []
        else:
            names[label] = "\n".join(askers)
    yield from line_rows(", ".join(plain), width, "dim")
    times = f"asked {moment(question.asked_ns)}"
    if question.expires_ns:
        times += f", can wait until {moment(question.expires_ns)}"
    yield from line_rows(times, width, "dim")
    for label, name in names.items():
        if name and not _is_plain(name):
            yield from label_rows(label, name, width)


def _call_rows(question: Question, width: int) -> Iterator[Span]:
    for name, value in question.arguments.items():
        note, rows = value_rows(value, width)
        yield from _name_rows(name, note, width)
        yield from map(Span, rows)
    if question.tool and not question.arguments:
        yield Span("no arguments", "dim")
    if question.hidden:
        text = "values in it were hidden before it was stored: only who asks has them"
        yield from line_rows(text, width, "changed")
    if question.filled:
        yield from line_rows("the tool gets other values, which are not shown, at", width)
        for path in question.filled:
            yield from _name_rows(path, "", width)


def _request_rows(question: Question, width: int) -> Iterator[Span]:
    """Give where the call differs from what the model wrote."""
    requested = question.requested_arguments
    if requested is None:
        return
    before = {"tool": question.requested_tool or question.tool, "arguments": requested}
    after = {"tool": question.tool, "arguments": question.arguments}
    changes = list(differences(before, after))
    if not changes:
        yield Span(_UNCHANGED, "dim")
        return
    yield from line_rows(f"not {_UNCHANGED}; it differs in", width, "changed")
    for change in changes:
        yield from _name_rows(change.path, "", width)
        for side, value in (("the model wrote", change.before), ("it is now", change.after)):
            if value is msgspec.UNSET:
                yield Span(f"{side}: nothing", "strong")
            else:
                yield from label_rows(side, value, width)


def _name_rows(name: str, note: str, width: int) -> Iterator[Span]:
    """Give a name; one that might fill a row or say something, as an attacker's, as a value."""
    line, suffix = make_visible(name, one_line=True).text, f" ({note})" if note else ""
    if _is_plain(line) and len(line) <= width // 2:
        yield from line_rows(f"{line}{suffix}", width, "strong")
        return
    yield from line_rows(f"a name of {len(name):,} characters{suffix}", width, "changed")
    yield from map(Span, quote_rows(line, width))


def _is_plain(name: str) -> bool:
    """Tell whether *name* can stand in a row of ours: it is short, and has no blank."""
    return len(name) <= _LONGEST_NAME and _PLAIN_NAME.fullmatch(name) is not None
