"""Regular expressions in linear time: RE2, of the extra `redact`.

Why RE2: no pattern takes exponential time; the published rules are written for its syntax; and one
pass searches for many expressions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from toolbus.errors import RegistrationError
from toolbus.settings.extras import needs_extra

try:
    import re2  # type: ignore[import-untyped]  # the package has no type hints
except ImportError:
    re2 = None  # The documentation imports this module without the extra.

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MEMORY, _MEMORY_OF_SETS = 8 << 20, 32 << 20
# A set that runs out of memory silently finds nothing; this pattern always matches otherwise.
_PROOF = r"\A"


def check_installed() -> None:
    """Raise `ImportError`, which names the missing extra, if RE2 is not installed."""
    if re2 is None:
        raise ImportError(needs_extra("finding secrets needs RE2", "redact"), name="re2")


@lru_cache(maxsize=4_096)
def compiled(pattern: str) -> re2._Regexp:
    """Return the compiled *pattern*, cached for the process."""
    return uncached(pattern)


def uncached(pattern: str) -> re2._Regexp:
    """Return the compiled *pattern*, not cached."""
    return re2.compile(pattern, _options(_MEMORY))


def check_pattern(name: str, pattern: str) -> None:
    """Raise `RegistrationError` if RE2 cannot read *pattern* of the rule *name*.

    A pattern that matches the empty text is refused as well.
    """
    try:
        matches_nothing = uncached(pattern).search(b"") is not None
    except re2.error as error:
        reason = f"RE2 cannot read it: {_text(error)}"
        raise RegistrationError(f"rule {name!r}", reason) from None
    if matches_nothing:
        raise RegistrationError(f"rule {name!r}", "it matches the empty text")


class ExpressionSet:
    """Expressions that are searched for in one pass.

    *anchored* expressions match only at the beginning of a text.
    """

    def __init__(self, patterns: Iterable[str], *, anchored: bool = False) -> None:
        options = _options(_MEMORY_OF_SETS)
        self._set = re2.Set.MatchSet(options) if anchored else re2.Set.SearchSet(options)
        self._size = 0
        for pattern in patterns:
            self._set.Add(pattern)
            self._size += 1
        self._set.Add(_PROOF)
        self._set.Compile()

    def match(self, data: bytes) -> Sequence[int]:
        """Return the indices of the expressions in *data*; all of them if the set is exhausted."""
        numbers: list[int] = self._set.Match(data) or []
        if self._size not in numbers:
            return range(self._size)
        numbers.remove(self._size)
        return numbers


def _options(memory: int) -> re2.Options:
    options = re2.Options()
    # Errors are raised; RE2 would also write them to standard error.
    options.log_errors = False
    options.max_mem = memory
    return options


def _text(error: Exception) -> str:
    reason = error.args[0] if error.args else "not a regular expression"
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
