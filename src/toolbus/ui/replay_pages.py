"""The page of a replay: the recorded verdicts of a session beside those of other handlers."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from msgspec import DecodeError
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse
from starlette.routing import Route

from toolbus.history.lookup import find_session
from toolbus.replay.comparison import Comparison
from toolbus.replay.comparison_process import ComparisonRequest, compare_elsewhere
from toolbus.ui.addresses import address, number_of
from toolbus.ui.locks import form_of, login_of
from toolbus.ui.responses import page

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from toolbus.ui.state import UiState

REPLAY_SECONDS = 60.0
CONFIGURATION = "your configuration"
"""The name of the active configuration among the targets."""

_ROWS = 200
"""The rows of one page."""


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
        self._state, self._targets = state, {CONFIGURATION: None, **state.targets}
        self._run, self._starting = ReplayRun("", "", Comparison()), threading.Lock()

    def show(self, request: Request) -> Response:
        """Return the form, with the progress or the result of the latest replay."""
        session, run = request.path_params["session"], self._run
        with self._state.reading() as reader:
            session = find_session(reader, session).id
        token = self._state.locks.form_token(login_of(request), "replay", session)
        comparison = run.comparison if run.session == session else None
        values = _table(comparison or Comparison(), request)
        values |= {"session": session, "run": run, "targets": self._targets, "token": token}
        return page(request, "replay.html", **values)

    def start(self, request: Request) -> Response:
        """Start a replay, and lead to its page."""
        session, form = request.path_params["session"], form_of(request)
        token, name = form.get("token", ""), form.get("target", "")
        locks = self._state.locks
        if not locks.check_form_token(token, login_of(request), "replay", session):
            raise HTTPException(403, "the form is too old; open the page again")
        if name not in self._targets:
            raise HTTPException(400, f"no target {name!r}; name it with --with")
        with self._starting:
            if self._run.comparison is None:
                raise HTTPException(409, "another replay goes on; wait until it has ended")
            run = self._run = ReplayRun(session, name)
        wanted = (self._state.address, session, self._targets[name], REPLAY_SECONDS)
        threading.Thread(target=run.run, args=[ComparisonRequest(*wanted)], daemon=True).start()
        return RedirectResponse(address("replay", session), 303)


class ReplayRun:
    """A replay of *session* past the target *name*; *done* goes from 0 to 1."""

    def __init__(self, session: str, name: str, comparison: Comparison | None = None) -> None:
        self.session, self.name, self.done = session, name, 0.0
        self.comparison = comparison

    def run(self, request: ComparisonRequest) -> None:
        """Set the comparison; called in a thread."""
        try:
            self.comparison = compare_elsewhere(request, self._note_progress)
        except (OSError, DecodeError) as error:
            self.comparison = Comparison(failure=f"its process broke off: {error}")

    def _note_progress(self, done: float) -> None:
        self.done = done


def _table(comparison: Comparison, request: Request) -> dict[str, Any]:
    """Return the counts of the verdicts, and the rows of one page: all, or those that differ."""
    calls = [row for row in comparison.rows if row.role == "call"]
    recorded = Counter([row.recorded.verdict for row in calls])
    replayed = Counter([row.verdict for row in calls])
    differing = [row for row in calls if row.differs]
    is_short = "differing" in request.query_params
    rows = differing if is_short else comparison.rows
    after = number_of(request.query_params.get("after", ""))
    words = sorted({*recorded, *replayed})
    return {
        "comparison": comparison,
        "verdicts": [(word, recorded[word], replayed[word]) for word in words],
        "calls": len(calls),
        "differing": len(differing),
        "is_short": is_short,
        "rows": rows[after : after + _ROWS],
        "further": after + _ROWS if len(rows) > after + _ROWS else 0,
    }
