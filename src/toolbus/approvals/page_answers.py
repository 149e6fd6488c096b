"""A question as a page shows it, and answers from there.

The rows are those of every other channel (`toolbus.approvals.display`); a yes counts only for a
question that a page shows whole.
"""

from __future__ import annotations

import hashlib
import json
import time
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from toolbus.approvals.display import question_rows, state_words
from toolbus.approvals.grants import granting_session
from toolbus.approvals.questions import is_delegated
from toolbus.approvals.records import find_question, matches_digest
from toolbus.approvals.steps import PersonPage, answer
from toolbus.errors import DecodeError, FreezeError, StoreError
from toolbus.messages.codec import encode
from toolbus.settings.visible_text import shorten_visible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from toolbus.approvals.grants import GrantSpan
    from toolbus.approvals.questions import Question
    from toolbus.approvals.steps import AnswerResult
    from toolbus.store.protocol import Store

MOST_CHARACTERS, MOST_LINES = 20_000, 400
"""The size of the largest question that is approved on a page: a person must have read it."""

_LARGEST = 1_000_000
"""The most bytes of a question that a page shows: larger ones would hold up all others."""

GRANT_SPANS: Mapping[str, GrantSpan] = {
    "15 minutes from now": 900.0,
    "an hour from now": 3_600.0,
    "8 hours from now": 28_800.0,
    "the session ends": "session",
}
"""The ends of a grant on a page, by their words."""

_WIDE, _MARK = 10**9, "│ "
_CHANGED = "its digest is not that of its call: the store was changed"
_NEXT = "the call runs as soon as its agent waits for it, or makes it again"


class TextBlock(NamedTuple):
    """A row of our own words with its *style*, or a *quoted* text.

    Each line of a text with several begins with a mark, which its wrapped parts do not have.
    """

    text: str
    style: str = ""
    quoted: bool = False


class PageQuestion(NamedTuple):
    """A *question* on a page: its *heading*, and the *blocks* of its text.

    *closed* is the reason why it has no answer, and *too_long* the reason why it has only a no.
    A yes to later calls covers *session*, until one of *spans*. *name* is the id of its element.
    *subject* names the question in a form, in ASCII without line breaks: browsers change them.
    """

    question: Question
    heading: str
    blocks: tuple[TextBlock, ...]
    closed: str
    too_long: str
    session: str
    name: str
    subject: str
    spans: tuple[str, ...] = tuple(GRANT_SPANS)


class PageAnswer(NamedTuple):
    """An answer to a question as it was shown; *grant* comes with a yes, *reason* with a no."""

    session_id: str
    id: str
    digest: str
    approve: bool
    reason: str = ""
    grant: GrantSpan | None = None


class PageReply(NamedTuple):
    """The result of an answer in one sentence, and whether it counts."""

    text: str
    counts: bool = False


def page_question(question: Question) -> PageQuestion:
    """Return *question* as a page shows it."""
    size = len(encode(question))
    heading, *blocks = _blocks(question) if size <= _LARGEST else _stand_in(question, size)
    # An id may be any text, such as the id of another element.
    name = hashlib.sha256(encode([question.session_id, question.id])).hexdigest()[:16]
    return PageQuestion(
        question=question,
        heading=heading.text,
        blocks=tuple(blocks),
        closed=_reason_closed(question),
        too_long=_reason_too_long(blocks, 0 if size <= _LARGEST else size),
        session=granting_session(question),
        name=f"question-{name}",
        subject=json.dumps([question.session_id, question.id, question.digest]),
    )


def read_page_answer(fields: Mapping[str, str]) -> PageAnswer | None:
    """Return the answer in the *fields* of a form with a proved `subject`; None without one."""
    session_id, name, digest = json.loads(fields["subject"])
    subject = session_id, name, digest
    match fields.get("decision"), fields.get("span", ""):
        case "approve", _:
            return PageAnswer(*subject, approve=True)
        case "grant", span if span in GRANT_SPANS:
            return PageAnswer(*subject, approve=True, grant=GRANT_SPANS[span])
        case "deny", _:
            reason = fields.get("reason", "").replace("\r\n", "\n")
            return PageAnswer(*subject, approve=False, reason=reason)
    return None


async def answer_from_page(
    store: Store, sent: PageAnswer, *, by: str, clock: Callable[[], int] = time.time_ns
) -> PageReply:
    """Give the answer *sent* by the person *by*, whose identity the caller has proved."""
    try:
        question = await find_question(store, sent.id, sent.session_id)
        if question is not None and question.digest == sent.digest:
            problem = "" if matches_digest(question) else _CHANGED
            if sent.approve:
                problem = problem or page_question(question).too_long
            if problem:
                return PageReply(f"nothing was answered: {problem}")
        result = await answer(
            store,
            sent.id,
            sent.digest,
            approve=sent.approve,
            by=by,
            channel=PersonPage(),
            reason=sent.reason,
            grant=sent.grant,
            session_id=sent.session_id,
            clock=clock,
        )
    except (DecodeError, FreezeError) as error:
        return PageReply(f"nothing was answered: {error}")
    except StoreError as error:
        return PageReply(f"load the page again to see whether the answer counts: {error}")
    return PageReply(_words(result), result.status in {"accepted", "granted"})


def _words(result: AnswerResult) -> str:
    if result.status != "accepted" or result.question is None:
        return result.text
    if result.question.state == "denied":
        return f"{result.text}; the call does not run"
    grant = result.grant
    ends = f"; `toolbus approvals revoke {grant.id}` ends the grant" if grant else ""
    return f"{result.text}; {_NEXT}{ends}"


def _reason_closed(question: Question) -> str:
    if is_delegated(question):
        return "the coding agent asks its own user: answer it there; toolbus does not learn it"
    if question.state != "pending":
        return f"it is {state_words(question)}"
    return "" if matches_digest(question) else _CHANGED


def _reason_too_long(blocks: list[TextBlock], hidden: int) -> str:
    characters = sum([len(block.text) for block in blocks]) + hidden
    lines = sum([block.text.count("\n") + 1 for block in blocks])
    if characters <= MOST_CHARACTERS and lines <= MOST_LINES:
        return ""
    size = f"{characters:,} characters in {lines:,} lines"
    return f"it is too long for a page ({size}); use `toolbus approvals` at a terminal"


def _stand_in(question: Question, size: int) -> list[TextBlock]:
    """Return the blocks of a *question* whose *size* in bytes is too large to be shown."""
    tool = TextBlock(shorten_visible(question.tool), quoted=True)
    note = TextBlock(f"{size:,} bytes are too many for a page: nothing of it is shown", "changed")
    return [TextBlock("the model makes a large call of the tool"), tool, note]


def _blocks(question: Question) -> list[TextBlock]:
    """Return the rows of *question*, those of one quoted text together."""
    blocks: list[TextBlock] = []
    rows = question_rows(question, _WIDE, place=False, utc=True)
    for quoted, group in groupby(rows, lambda row: row.text.startswith(_MARK)):
        if quoted:
            lines = [row.text.removeprefix(_MARK) for row in group]
            if len(lines) > 1:
                # The mark and a long word stay on one line, hence the no-break space.
                lines = ["│\N{NO-BREAK SPACE}" + line.replace("│", "\\u2502") for line in lines]
            blocks.append(TextBlock("\n".join(lines), quoted=True))
        else:
            blocks.extend([TextBlock(row.text, row.style) for row in group])
    return blocks
