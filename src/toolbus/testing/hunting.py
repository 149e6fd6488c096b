"""Let hypothesis hunt for the smallest case that breaks a law."""

from __future__ import annotations

from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any

from toolbus.errors import LawBroken
from toolbus.testing.drawing import hypothesis
from toolbus.testing.drawing import strategies as st
from toolbus.testing.trials import Abandoned

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import SearchStrategy

# A case is made smaller for as long at most, so that the check of a slow handler ends as well.
MOST_TRIES, MOST_SECONDS = 500, 10.0


class _Halt(BaseException):
    """The hunt is over: to try further would take too long."""


def hunt(
    examine: Callable[[Callable[[SearchStrategy[Any]], Any]], object], *, examples: int, seed: int
) -> None:
    """Call *examine* with a function that draws, again and again; raise the smallest `LawBroken`.

    The same *seed* gives the same cases.
    """
    found: list[LawBroken] = []
    tries, until = 0, inf

    def attempt(data: Any) -> None:
        nonlocal tries, until
        tries += bool(found)
        if tries > MOST_TRIES or monotonic() > until:
            return
        try:
            examine(data.draw)
        except Abandoned:
            return
        except LawBroken as error:
            if found and error.law != found[0].law:
                return  # Another law's case is no smaller one of this.
            until = until if found else monotonic() + MOST_SECONDS
            found.append(error)
            if error.law == "ends":
                raise _Halt from None  # Each further try would take as long.
            raise

    search = hypothesis.given(data=st.data())(attempt)
    search = hypothesis.settings(_settings(), max_examples=examples)(search)
    try:
        hypothesis.seed(seed)(search)()
    except (LawBroken, _Halt, hypothesis.errors.Flaky):
        # Flaky: it broke the law once and not again with the same value, as hidden state does.
        if not found:
            raise
    if found:
        raise found[-1].with_traceback(None) from None


def _settings() -> hypothesis.settings:
    """Return settings that no profile of the user changes: the same hunt everywhere."""
    return hypothesis.settings(
        backend="hypothesis",
        database=None,
        deadline=None,
        derandomize=False,
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
        print_blob=False,
        report_multiple_bugs=False,
        stateful_step_count=50,
        suppress_health_check=list(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
    )
