"""Expressions that are looked for in linear time: RE2, of the extra `redact`.

Why RE2: no pattern explodes in it, whoever wrote it; the published rules are written for its
syntax; and it looks for many expressions in one pass.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from toolbus.errors import RegistrationError
from toolbus.settings.extras import needs_extra

try:
    import re2  # type: ignore[import-untyped]  # it has no hints
except ImportError:
    re2 = None  # Documentation can be read without it.

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MEMORY, _MEMORY_OF_SETS = 8 << 20, 32 << 20
# A set that runs out of memory finds nothing and does not say so. It must find this one.
_PROOF = r"\A"


def check_installed() -> None:
    """Raise `ImportError`, with the extra that is missing, if RE2 is not there."""
    if re2 is None:
        raise ImportError(needs_extra("to look for secrets needs RE2", "redact"), name="re2")


@lru_cache(maxsize=4_096)
def compiled(pattern: str) -> re2._Regexp:
    """Return the expression of *pattern*, which everybody shares."""
    return uncached(pattern)


def uncached(pattern: str) -> re2._Regexp:
    """Return the expression of *pattern*, which nobody else keeps."""
    return re2.compile(pattern, _options(_MEMORY))


def check_pattern(name: str, pattern: str) -> None:
    """Raise `RegistrationError` if RE2 cannot read *pattern* of the rule *name*.

    So it does if the pattern matches where nothing stands.
    """
    try:
        matches_nothing = uncached(pattern).search(b"") is not None
    except re2.error as error:
        reason = f"RE2 cannot read it: {_text(error)}"
        raise RegistrationError(f"rule {name!r}", reason) from None
    if matches_nothing:
        raise RegistrationError(f"rule {name!r}", "it matches where nothing stands")


class ExpressionSet:
    """Expressions that are looked for in one pass: of each it tells whether it is in a text.

    *anchored* ones stand at its begin.
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
        """Return the numbers of those that are in *data*; of all if it is too much to tell."""
        numbers: list[int] = self._set.Match(data) or []
        if self._size not in numbers:
            return range(self._size)
        numbers.remove(self._size)
        return numbers


def _options(memory: int) -> re2.Options:
    options = re2.Options()
    # What is wrong is raised; RE2 itself would write it to standard error.
    options.log_errors = False
    options.max_mem = memory
    return options


def _text(error: Exception) -> str:
    reason = error.args[0] if error.args else "no regular expression"
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
