"""Let hypothesis hunt for the smallest case that breaks a law."""

from __future__ import annotations

from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from toolbus.errors import LawBroken
from toolbus.testing.drawing import hypothesis
from toolbus.testing.drawing import strategies as st
from toolbus.testing.trials import Abandoned

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import SearchStrategy

Examine: TypeAlias = "Callable[[Callable[[SearchStrategy[Any]], Any]], object]"
"""Examines one case, for which it draws with the function that it is given."""

# A case is made smaller for as long at most, so that the check of a slow handler ends as well.
MOST_TRIES, MOST_SECONDS = 500, 30.0
_SHORT = 1_000
"""Of how many characters a case is that a person reads at a glance."""
_FLAKY = "  it did so once and not each time: it remembers earlier calls, or draws lots"


class _Halt(BaseException):
    """The hunt is over: to try further would take too long."""


def hunt(examine: Examine, *, examples: int, seed: int) -> None:
    """Call *examine* with a function that draws, again and again; raise the smallest `LawBroken`.

    The same *seed* gives the same cases. Raises `ValueError` if nothing can be drawn.
    """
    hunted = _Hunt(examine)
    # Hypothesis cannot make every kind of text out of every other, so it may stop at a large case:
    # a second search, from another seed, is for shorter ones only.
    for start in (seed, seed + 1):
        _search(hunted, examples, start)
        if hunted.smallest is None or hunted.is_over:
            break
        hunted.bound = len(repr(hunted.smallest.case))
        if hunted.bound < _SHORT:
            break
    if hunted.smallest is not None:
        raise hunted.smallest.with_traceback(None) from None


def _search(hunted: _Hunt, examples: int, seed: int) -> None:
    search = hypothesis.given(data=st.data())(hunted.attempt)
    search = hypothesis.settings(_settings(), max_examples=examples)(search)
    try:
        hypothesis.seed(seed)(search)()
    except (LawBroken, _Halt):
        pass
    except hypothesis.errors.Unsatisfiable as error:
        msg = "no case can be drawn; see whether something fits the schemas, values or calls given"
        raise ValueError(msg) from error
    except hypothesis.errors.Flaky:
        # It broke the law once and not again with the same value, as hidden state does.
        if hunted.smallest is None:
            raise
        if not hunted.is_over:
            hunted.smallest.add_note(_FLAKY)
            hunted.stop()


class _Hunt:
    """What was found so far; after the first breach, only cases of that law count.

    Those whose representation has *bound* characters or more count no longer.
    """

    def __init__(self, examine: Examine) -> None:
        self._examine = examine
        self._tries, self._until = 0, inf
        self.bound = inf
        self.smallest: LawBroken | None = None

    @property
    def is_over(self) -> bool:
        """Whether no smaller case is looked for any more."""
        return self._tries > MOST_TRIES or monotonic() > self._until

    def stop(self) -> None:
        """Look for no smaller case."""
        self._until = -inf

    def attempt(self, data: Any) -> None:
        """Examine one case."""
        self._tries += self.smallest is not None
        if self.is_over:
            return
        try:
            self._examine(data.draw)
        except Abandoned:
            return
        except LawBroken as error:
            if self.smallest is None:
                self._until = monotonic() + MOST_SECONDS
            elif error.law != self.smallest.law:
                return  # Another law's case is no smaller one of this.
            if len(repr(error.case)) >= self.bound:
                return
            self.smallest = error
            if error.law == "ends":
                self.stop()
                raise _Halt from None  # Each further try would take as long.
            raise


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
