"""National identity numbers of persons, by their shapes and check digits.

The check digits are those of python-stdnum. A number of a distinctive shape (`756.9217.0769.85`)
matches anywhere. A number of a common shape (`219-09-9999`, and bare digits) needs a word for it:
right before it, in the same line, in its key, or in the first line of its text, as in a table. A
country named in the settings replaces the word, except for bare digits.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from toolbus.redaction.personal.facts import facts
from toolbus.redaction.personal.lines import PERSON
from toolbus.redaction.personal.matches import scan

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from toolbus.redaction.personal.facts import Identity
    from toolbus.redaction.personal.lines import Line
    from toolbus.redaction.personal.matches import Appraisal, PersonalDataMatch

KIND = "national-id"


class _Form(Struct, frozen=True):
    """A written form of a number: *value* returns the number without gaps, or None."""

    pattern: re.Pattern[str]
    value: Callable[[str], str | None]
    topics: frozenset[str]


_Forms: TypeAlias = "tuple[re.Pattern[str], list[_Form]]"


class Identities:
    """Finds the numbers of *countries*; *named* are those in the settings."""

    def __init__(self, countries: Container[str], named: Container[str]) -> None:
        chosen = [identity for identity in facts().identities if identity.country in countries]
        shapes = [(identity.shape, identity) for identity in chosen]
        bare = [(identity.bare, identity) for identity in chosen]
        at_home = [(identity.weak, identity) for identity in chosen if identity.country in named]
        weak = [(identity.weak, identity) for identity in chosen if identity.country not in named]
        # Most texts with numbers hold no identity, and one pattern excludes them all at once.
        self._anywhere = _forms([*shapes, *at_home])
        self._near_words = _forms([*bare, *weak])

    def find(self, line: Line, appraisal: Appraisal) -> Iterator[PersonalDataMatch]:
        """Yield the numbers in *line*."""
        sieve, forms = self._anywhere
        yield from scan(sieve, line, KIND, partial(_number, appraisal, forms))
        sieve, forms = self._near_words
        yield from scan(sieve, line, KIND, partial(_number_near_word, appraisal, forms))


def _number_near_word(
    appraisal: Appraisal, forms: list[_Form], candidate: re.Match[str], line: Line
) -> tuple[str, int] | None:
    topics = line.about(candidate.start(), candidate.end())
    meant = [form for form in forms if not form.topics.isdisjoint(topics)] if topics else []
    return _number(appraisal, meant, candidate, line)


def _number(
    appraisal: Appraisal, forms: list[_Form], candidate: re.Match[str], line: Line
) -> tuple[str, int] | None:
    """Return the number that begins at *candidate* in one of *forms*, and its end."""
    for form in forms:
        match = form.pattern.match(line.text, candidate.start(), line.end)
        value = None if match is None else appraisal.ask(form.value, match[0])
        if match is not None and value is not None:
            return value, match.end()
    return None


def identity_countries() -> frozenset[str]:
    """Return the countries whose identity numbers are known."""
    return frozenset([identity.country for identity in facts().identities])


def _forms(shapes: list[tuple[str, Identity]]) -> _Forms:
    """Return the forms of all *shapes*, and one pattern for the places where any may match."""
    forms = [
        _Form(_compiled(shape), _value_of(identity), _topics(shape, identity))
        for shape, identity in shapes
        if shape
    ]
    loose = []
    for shape in dict.fromkeys(shape for shape, _ in shapes if shape):
        group = re.search(r"\((?!\?)([^()]*)\)", shape)
        loose.append(shape if group is None else shape.replace(r"\1", group[1]))
    return _compiled("|".join(loose) or "(?!)"), forms


def _topics(shape: str, identity: Identity) -> frozenset[str]:
    """Return the topics of words near *shape*: "passport" does not count for bare digits."""
    general = {PERSON} if shape == identity.weak else set[str]()
    return frozenset({identity.topic, *general})


def _compiled(shape: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![0-9A-Za-z+])(?<![0-9][.,-])(?:{shape})(?![0-9A-Za-z]|[.,-][0-9])")


def _value_of(identity: Identity) -> Callable[[str], str | None]:
    def value(written: str) -> str | None:
        if not identity.module:
            return f"{identity.country}{re.sub('[-. ]', '', written).upper()}"
        # Imported at first use: most texts hold no numbers of most countries.
        module: Any = import_module(f"stdnum.{identity.module}")
        try:
            if not module.is_valid(written):
                return None
        except Exception:  # noqa: BLE001 - some modules fail at an unknown place of birth
            return f"{identity.country}{written.upper()}"
        return f"{identity.country}{module.compact(written).upper()}"

    return value
