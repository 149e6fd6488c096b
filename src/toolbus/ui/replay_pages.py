"""The page of a replay: the recorded verdicts of a session beside those of other handlers."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse
from starlette.routing import Route

from toolbus.history.lookup import find_session
from toolbus.replay.comparison import Comparison
from toolbus.replay.comparison_process import ComparisonRequest, ComparisonRun
from toolbus.ui.addresses import address, number_of
from toolbus.ui.requests import form_of, login_of
from toolbus.ui.responses import page

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from toolbus.ui.state import UiState

REPLAY_SECONDS = 60.0
CONFIGURATION = "your configuration"
"""The name of the active configuration among the targets."""
_ROWS = 200  # On one page.


def routes(state: UiState) -> list[BaseRoute]:
    """Return the routes of replays."""
    replays = _Replays(state)
    path = "/replay/{session:path}"
    return [Route(path, replays.show), Route(path, replays.start, methods=["POST"])]


class _Replays:
    """The pages of replays, of which one runs at a time.

    A replay is a POST with a form token: it runs the code of the named files and takes time, which
    no other page and no link may cause. The form has the name of a target, never a path.
    """

    def __init__(self, state: UiState) -> None:
        self._state, self._targets = state, {**state.targets, CONFIGURATION: None}
        self._run: ComparisonRun | None = None
        self._starting = threading.Lock()

    def show(self, request: Request) -> Response:
        """Return the form, with the progress or the result of the latest replay."""
        with self._state.reading() as reader:
            session = find_session(reader, request.path_params["session"]).id
        run, query = self._run, request.query_params
        comparison = (run and run.session == session and run.comparison) or Comparison()
        after, is_short = number_of(query.get("after", "")), "differing" in query
        return page(
            request,
            "replay.html",
            session=session,
            targets=self._targets,
            token=self._state.locks.form_token(login_of(request), "replay", session),
            run=run,
            comparison=comparison,
            is_short=is_short,
            rows=(comparison.differing if is_short else comparison.rows)[after:],
            further=after + _ROWS,
            most=_ROWS,
        )

    def start(self, request: Request) -> Response:
        """Start a replay, and lead to its page."""
        session, form = request.path_params["session"], form_of(request)
        token, name = form.get("token", ""), form.get("target", "")
        if not self._state.locks.check_form_token(token, login_of(request), "replay", session):
            raise HTTPException(403, "the form is too old; open the page again")
        if name not in self._targets:
            raise HTTPException(400, f"no target {name!r}; name it with --with")
        wanted = (self._state.address, session, self._targets[name], REPLAY_SECONDS)
        with self._starting:
            if self._run is not None and self._run.comparison is None:
                raise HTTPException(409, "another replay goes on; wait until it has ended")
            self._run = ComparisonRun(ComparisonRequest(*wanted), name)
        return RedirectResponse(address("replay", session), 303)
