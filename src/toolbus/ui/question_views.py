"""Questions on the page: with forms where a person may answer, and the answers that are posted.

An answer needs the token of its form, which covers login, session, question and digest, and the
code that is only on the terminal. The rules for updates are at the head of `questions.html`.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.routing import Route

from toolbus.approvals.page_answers import PageSubject, answer_from_page, page_question
from toolbus.approvals.question_lookup import count_pending, read_overview
from toolbus.history.durations import seconds_in
from toolbus.messages.codec import decoder
from toolbus.presence.person import person_name
from toolbus.store.store_factory import open_store
from toolbus.ui.locks import form_of, login_of
from toolbus.ui.responses import fragment, page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from toolbus.approvals.grants import GrantSpan
    from toolbus.approvals.page_answers import PageQuestion
    from toolbus.approvals.question_lookup import QuestionOverview
    from toolbus.approvals.questions import Question
    from toolbus.ui.locks import PageLogin
    from toolbus.ui.state import UiState

_PURPOSE = "answer"
_decode_subject = decoder(PageSubject)
_MOST_RESULTS, _COUNT_SECONDS = 100, 1.0


class QuestionView(NamedTuple):
    """A question *shown* at *now_ns*, and the *subject* and *token* of its form.

    *closed* is the reason why it has no form. The subject is JSON: browsers change line breaks.
    """

    shown: PageQuestion
    closed: str
    subject: str
    token: str
    now_ns: int


def routes(state: UiState) -> list[BaseRoute]:
    """Return the routes of the questions and of their answers."""
    # By random keys, so that a reload of the page after an answer repeats nothing.
    results: dict[str, str] = {}

    def show_questions(request: Request) -> Response:
        name = request.query_params.get("session", "")
        with state.reading() as reader:
            session = reader.session(name) if name else None
            if name and session is None:
                raise HTTPException(404, f"no session {name!r}")
            overview = read_overview(reader, time.time_ns(), session)
        views = views_of(state, request, overview)
        if request.query_params.get("part"):
            return fragment("waiting.html", views=views)
        return page(
            request,
            "questions.html",
            session=session,
            overview=overview,
            views=views,
            count_pending=lambda: overview.pending,
            result=results.get(request.query_params.get("result", ""), ""),
        )

    async def take_answer(request: Request) -> Response:
        status, text = await _answer(state, login_of(request), form_of(request))
        if request.headers.get("accept") == "text/plain":
            return PlainTextResponse(text, status)
        key = secrets.token_urlsafe(16)
        results[key] = text
        for oldest in list(results)[:-_MOST_RESULTS]:
            del results[oldest]
        return RedirectResponse(f"/questions?result={key}", 303)

    return [
        Route("/questions", show_questions),
        Route("/questions/answer", take_answer, methods=["POST"]),
    ]


def views_of(state: UiState, request: Request, overview: QuestionOverview) -> list[QuestionView]:
    """Return the unanswered questions for the login of *request*, with forms if it may answer."""
    login = login_of(request)
    reason = state.locks.reason_not_to_answer(login)

    def view(question: Question) -> QuestionView:
        shown = page_question(question)
        subject = json.dumps([question.session_id, question.id, question.digest])
        token = state.locks.form_token(login, _PURPOSE, subject)
        return QuestionView(shown, shown.closed or reason, subject, token, time.time_ns())

    return [view(question) for question in overview.waiting]


class PendingCount:
    """The number of questions that wait for a person, counted at most once a second."""

    def __init__(self, state: UiState) -> None:
        self._state, self._guard = state, threading.Lock()
        self._count, self._until = 0, 0.0

    def __call__(self) -> int:
        """Return the number; threads may share it."""
        with self._guard:
            if time.monotonic() >= self._until:
                with self._state.reading() as reader:
                    self._count = count_pending(reader, time.time_ns())
                self._until = time.monotonic() + _COUNT_SECONDS
            return self._count


async def _answer(state: UiState, login: PageLogin, fields: Mapping[str, str]) -> tuple[int, str]:
    """Apply the answer in *fields*; return a status, 403 for a refused code, and the result."""
    token, subject = fields.get("token", ""), fields.get("subject", "")
    if not state.locks.check_form_token(token, login, _PURPOSE, subject):
        return 409, "this form is not of this login; load the page again"
    decision, span = fields.get("decision"), fields.get("span", "")
    grant: GrantSpan | None = "session" if span == "session" else seconds_in(span)
    if decision not in {"approve", "grant", "deny"} or (decision == "grant" and grant is None):
        return 400, "this is not an answer; load the page again"
    check = state.locks.answer_lock.check(fields.get("code", ""))
    if not check.accepted:
        return 403, check.text
    async with await asyncio.to_thread(open_store, state.address) as store:
        reply = await answer_from_page(
            store,
            _decode_subject(subject),
            approve=decision != "deny",
            by=person_name(),
            reason=fields.get("reason", "") if decision == "deny" else "",
            grant=grant if decision == "grant" else None,
        )
    return 200 if reply.counts else 409, reply.text
