"""The search for the smallest case that breaks a law, by hypothesis."""

from __future__ import annotations

from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from toolbus.errors import LawBroken
from toolbus.testing.law_verifier import NoResult
from toolbus.testing.text_strategies import hypothesis, st

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import SearchStrategy

Draw: TypeAlias = "Callable[[SearchStrategy[Any]], Any]"

# The limits of shrinking a case, so that the check of a slow handler ends, too.
MOST_TRIES, MOST_SECONDS = 500, 30.0
_SHORT = 1_000
"""The most characters of a case that a person reads at a glance."""
_FLAKY = "  it did so once but not each time: it depends on earlier calls, or on random numbers"


class _SearchOver(BaseException):
    """The search ends, since further attempts would take too long."""


def search_cases(examine: Callable[[Draw], object], *, examples: int, seed: int) -> None:
    """Call *examine* repeatedly with a function that draws values; raise the smallest `LawBroken`.

    The same *seed* gives the same cases. Raises `ValueError` if nothing can be drawn.
    """
    search = _CaseSearch(examine)
    # Hypothesis cannot shrink every kind of text, so it may stop at a large case: a second search,
    # from another seed, only accepts smaller ones.
    for start in (seed, seed + 1):
        search.search(examples, start)
        if search.smallest is None or search.is_over:
            break
        search.bound = len(repr(search.smallest.case))
        if search.bound < _SHORT:
            break
    if search.smallest is not None:
        raise search.smallest.with_traceback(None) from None


class _CaseSearch:
    """The smallest case so far; after the first breach, only cases of the same law count.

    Cases whose representation has *bound* characters or more are ignored.
    """

    def __init__(self, examine: Callable[[Draw], object]) -> None:
        self._examine = examine
        self._tries, self._until = 0, inf
        self.bound = inf
        self.smallest: LawBroken | None = None

    @property
    def is_over(self) -> bool:
        """Whether the search for smaller cases has ended."""
        return self._tries > MOST_TRIES or monotonic() > self._until

    def search(self, examples: int, seed: int) -> None:
        """Examine *examples* cases, and smaller ones once a law is broken."""
        search = hypothesis.given(data=st.data())(self._attempt)
        search = hypothesis.settings(_settings(), max_examples=examples)(search)
        try:
            hypothesis.seed(seed)(search)()
        except (LawBroken, _SearchOver):
            pass
        except hypothesis.errors.Unsatisfiable as error:
            msg = "no case can be drawn; do any values match the given schemas, values or calls?"
            raise ValueError(msg) from error
        except hypothesis.errors.Flaky:
            # It broke the law once and not again with the same value, because of hidden state.
            if self.smallest is None:
                raise
            if not self.is_over:
                self.smallest.add_note(_FLAKY)
                self._until = -inf

    def _attempt(self, data: Any) -> None:
        self._tries += self.smallest is not None
        if self.is_over:
            return
        try:
            self._examine(data.draw)
        except NoResult:
            return
        except LawBroken as error:
            # A case of another law is not a smaller one of this.
            is_other = self.smallest is not None and error.law != self.smallest.law
            if is_other or len(repr(error.case)) >= self.bound:
                return
            if self.smallest is None:
                self._until = monotonic() + MOST_SECONDS
            self.smallest = error
            if error.law == "ends":
                self._until = -inf
                raise _SearchOver from None  # Each further attempt would take as long.
            raise


def _settings() -> hypothesis.settings:
    """Return settings that are independent of the user's hypothesis profile."""
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
