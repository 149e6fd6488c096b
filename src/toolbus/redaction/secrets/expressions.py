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

    from toolbus.redaction.secrets.rules import Rule

_MEMORY, _MEMORY_OF_SETS = 8 << 20, 32 << 20
# A set that runs out of memory finds nothing and does not say so. It must find this one.
_PROOF = b"\n\x00toolbus\x00"


def check_installed() -> None:
    """Raise `ImportError`, with the extra that is missing, if RE2 is not there."""
    if re2 is None:
        raise ImportError(needs_extra("to look for secrets needs RE2", "redact"), name="re2")


@lru_cache(maxsize=4_096)
def compiled(pattern: str) -> re2._Regexp:
    """Return the expression of *pattern*, which everybody shares."""
    return re2.compile(pattern, _options(_MEMORY))


class ExpressionSet:
    """Expressions that are looked for in one pass: of each it tells whether it is in a text.

    *literal* ones are words; *anchored* ones stand at its begin.
    """

    def __init__(
        self, patterns: Iterable[str], *, literal: bool = False, anchored: bool = False
    ) -> None:
        options = _options(_MEMORY_OF_SETS, literal=literal)
        self._set = re2.Set.MatchSet(options) if anchored else re2.Set.SearchSet(options)
        self._size = 0
        for pattern in patterns:
            self._set.Add(pattern)
            self._size += 1
        proof = _PROOF.decode() if literal else re2.escape(_PROOF.decode())
        self._set.Add(f"(?s).*{proof}" if anchored else proof)
        self._set.Compile()

    def match(self, data: bytes) -> Sequence[int]:
        """Return the numbers of those that are in *data*; of all if it is too much to tell."""
        numbers: list[int] = self._set.Match(data + _PROOF) or []
        if self._size not in numbers:
            return range(self._size)
        numbers.remove(self._size)
        return numbers


class AtomFilter:
    """Rules without keywords: which of them may be in a text RE2 tells by pieces of their patterns.

    Raises `RegistrationError` for a rule that RE2 cannot read, or that matches nothing at all.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._filter, self._size = re2.Filter(), len(rules)
        for rule in rules:
            self._add(rule)
        # An empty filter cannot be compiled.
        if rules:
            self._filter.Compile()

    def match(self, data: bytes) -> Sequence[int]:
        """Return the numbers of those that may be in *data*."""
        return (self._filter.Match(data, potential=True) or ()) if self._size else ()

    def expression(self, number: int) -> re2._Regexp:
        """Return the expression of a rule."""
        return self._filter.re(number)

    def _add(self, rule: Rule) -> None:
        options = _options(_MEMORY)
        try:
            # The filter itself does not say what is wrong.
            if re2.compile(rule.pattern, options).search(b"") is not None:
                raise RegistrationError(f"rule {rule.name!r}", "it matches where nothing stands")
            self._filter.Add(rule.pattern, options)
        except re2.error as error:
            reason = f"RE2 cannot read it: {_text(error)}"
            raise RegistrationError(f"rule {rule.name!r}", reason) from None


def _options(memory: int, *, literal: bool = False) -> re2.Options:
    options = re2.Options()
    # What is wrong is raised; RE2 itself would write it to standard error.
    options.log_errors = False
    options.max_mem = memory
    options.literal, options.case_sensitive = literal, not literal
    return options


def _text(error: Exception) -> str:
    reason = error.args[0] if error.args else "no regular expression"
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
