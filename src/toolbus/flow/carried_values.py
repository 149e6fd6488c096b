"""Carried values: the kinds of secrets and of personal data in a text, by the redactor's finders.

A part of a secret that stands in view is found as well, also reversed: a secret may leave in
pieces.
"""

from __future__ import annotations

from functools import cache, partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from toolbus.redaction.limits import ScanLimits, UnexaminedError, at_once
from toolbus.redaction.placeholders import kinds_in, without_placeholders
from toolbus.settings.extras import needs_extra

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

SECRET = "secret"  # noqa: S105 - a kind
_PERSONAL = ("card", "email", "iban", "national-id", "phone")
UNREAD = dict.fromkeys([SECRET, *_PERSONAL], "a text that could not be searched")
"""The kinds of values that such a text may have, with their origin."""

_LIMITS = ScanLimits(8_000_000, 5.0)
_PIECE, _MOST_SECRETS = 12, 1_000
"""Characters of a piece of a secret, and secrets of one text."""


def kinds_of_placeholders(text: str) -> Iterator[tuple[str, str]]:
    """Yield the kinds of values that placeholders in *text* stand for, each with its origin."""
    for kind, _ in kinds_in(text):
        yield (kind if kind in _PERSONAL else SECRET), f"a placeholder of {kind}"


def kinds_of_values(text: str) -> Iterator[tuple[str, str]]:
    """Yield the kinds of values in *text*, each with its origin in words."""
    yield from kinds_of_placeholders(text)
    rest, (_, _, detector, appraisal) = without_placeholders(text), load_finders()
    for _, rule in islice(secrets_in(rest), 1):
        yield SECRET, f"a value that looks like {rule}"
    try:
        matches = at_once(detector.find(rest, appraisal(_LIMITS)))
    except UnexaminedError:
        yield from [(kind, UNREAD[kind]) for kind in _PERSONAL]
    else:
        yield from [(match.kind, f"a value that looks like {match.kind}") for match in matches]


def secrets_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield the secrets in *text*, each with the name of its rule."""
    (places, judges, _, _), judge = load_finders(), None
    for place in places(text.encode(errors="replace"), None):
        if place is not None:
            judge = judge or judges()
            if judge.is_likely(place.value, place.data, place.hit):
                yield place.value, place.hit.rule.name


def pieces_of_secrets(text: str) -> frozenset[str]:
    """Return the pieces of the secrets in *text*, in small letters."""
    values = {value.lower() for value, _ in islice(secrets_in(text), _MOST_SECRETS)}
    return frozenset().union(*map(_pieces, values))


def piece_in(text: str, pieces: Collection[str]) -> str | None:
    """Return the first of the *pieces* in *text*, or in the same text reversed; else None."""
    lower = text.lower()
    every = chain(_pieces(lower), _pieces(lower[::-1])) if pieces else ()
    return next((part for part in every if part in pieces), None)


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + _PIECE] for start in range(len(text) - _PIECE + 1))


@cache
def load_finders() -> tuple[Any, Any, Any, Any]:
    """Return the search for secrets, their judge, the detector of personal data, and its budget.

    Raises `ImportError` without the libraries of the extra `flow`.
    """
    try:
        # These modules need the extra `flow`.
        from toolbus.redaction.personal.detector import Detector  # noqa: PLC0415
        from toolbus.redaction.personal.matches import Appraisal  # noqa: PLC0415
        from toolbus.redaction.secrets.engine import engine_for, places  # noqa: PLC0415
        from toolbus.redaction.secrets.plausibility import Judge  # noqa: PLC0415
        from toolbus.redaction.secrets.rules import choose  # noqa: PLC0415
    except ImportError as error:
        msg = needs_extra("finding values in calls needs libraries", "flow")
        raise ImportError(msg, name=error.name) from error
    search = partial(places, engine_for(choose((), (), {})).find)
    return search, Judge, Detector(_PERSONAL, None, ()), Appraisal
