"""Questions on the page: with forms where a person may answer, and the answers that are posted.

An answer needs the token of its form, which covers login, session, question and digest, and the
code that is only on the terminal. The rules for updates are at the head of `question.html`.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse
from starlette.routing import Route

from toolbus.approvals.page_answers import answer_from_page, page_question, read_page_answer
from toolbus.approvals.question_lookup import read_overview
from toolbus.errors import ToolbusError
from toolbus.history.lookup import find_session
from toolbus.presence.person import person_name
from toolbus.store.store_factory import open_store
from toolbus.ui.requests import form_of, login_of
from toolbus.ui.responses import page

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from toolbus.approvals.page_answers import PageQuestion
    from toolbus.approvals.question_lookup import QuestionOverview
    from toolbus.ui.state import UiState

_PURPOSE, _RESULT = "answer", "result"
_RESULT_FIELDS = ("token", "status", "text")


class QuestionView(NamedTuple):
    """A question *shown* at *now_ns*, and the *token* of its form; *closed*: why it has no form."""

    shown: PageQuestion
    closed: str
    token: str
    now_ns: int


def routes(state: UiState) -> list[BaseRoute]:
    """Return the routes of the questions and of their answers."""

    def show_questions(request: Request) -> Response:
        name = request.query_params.get("session", "")
        with state.reading() as reader:
            session = find_session(reader, name) if name else None
            overview = read_overview(reader, time.time_ns(), session)
        views = views_of(state, request, overview)
        return page(request, "questions.html", session=session, overview=overview, views=views)

    async def take_answer(request: Request) -> Response:
        try:
            status, text = await _answer(state, request)
        except HTTPException as error:
            status, text = error.status_code, error.detail
        except ToolbusError as error:
            status, text = 500, str(error)
        token = state.locks.form_token(login_of(request), _RESULT, str(status), text)
        query = urlencode({"status": status, "text": text, "token": token})
        # A browser may write to a file what led to the page on display: never the form with a code.
        return RedirectResponse(f"/questions/answer?{query}", 303)

    def show_result(request: Request) -> Response:
        token, status, text = (request.query_params.get(each, "") for each in _RESULT_FIELDS)
        if not state.locks.check_form_token(token, login_of(request), _RESULT, status, text):
            raise HTTPException(404, "no answer was sent from here")
        return page(request, "notice.html", int(status), reason=text)

    return [
        Route("/questions", show_questions),
        Route("/questions/answer", take_answer, methods=["POST"]),
        Route("/questions/answer", show_result),
    ]


async def _answer(state: UiState, request: Request) -> tuple[int, str]:
    """Answer a question by the form of *request*; return the status and the result in words."""
    fields = form_of(request)
    token, subject = fields.get("token", ""), fields.get("subject", "")
    if not state.locks.check_form_token(token, login_of(request), _PURPOSE, subject):
        raise HTTPException(409, "this form is not of this login; load the page again")
    sent = read_page_answer(fields)
    if sent is None:
        raise HTTPException(400, "this is not an answer; load the page again")
    check = state.locks.answer_lock.check(fields.get("code", ""))
    if not check.accepted:
        raise HTTPException(403, check.text)
    async with await asyncio.to_thread(open_store, state.address) as store:
        reply = await answer_from_page(store, sent, by=person_name())
    request.app.state.count_pending.forget()
    return (200 if reply.counts else 409), reply.text


def views_of(state: UiState, request: Request, overview: QuestionOverview) -> list[QuestionView]:
    """Return the unanswered questions for the login of *request*, with forms if it may answer."""
    login, locks, now_ns = login_of(request), state.locks, time.time_ns()
    reason = locks.reason_not_to_answer(login)
    return [
        QuestionView(
            shown,
            shown.closed or reason,
            locks.form_token(login, _PURPOSE, shown.subject),
            now_ns,
        )
        for shown in map(page_question, overview.waiting)
    ]
