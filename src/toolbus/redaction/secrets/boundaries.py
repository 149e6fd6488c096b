r"""Where a growing text may be cut: what stands before is the same whatever comes behind.

Candidates are the blanks within a line, and the signs that part sentences in Chinese and Japanese.
Most formats of credentials have none of them inside. Whatever else may have begun before one is
looked for: a rule that goes on behind a blank, what stands behind the name of a secret, a table, an
escape of a terminal, a line that is joined with the next one.
"""

from __future__ import annotations

import re
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from toolbus.redaction.secrets.assigned import BEYOND_WORDS, LONG_REACH, is_heading, shape_patterns
from toolbus.redaction.secrets.columns import copied_values, goes_on, inserted_values, table_values
from toolbus.redaction.secrets.expressions import ExpressionSet, compiled, compiled_once
from toolbus.redaction.secrets.forms import expression
from toolbus.redaction.secrets.names import name_at, name_kind
from toolbus.redaction.secrets.prefixes import PatternShape
from toolbus.redaction.views import views_to_end

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.redaction.secrets.rules import Rule

SIGNS = " \t。，、；！？："  # noqa: RUF001 - as they are written in Chinese
"""What a text may be cut behind."""

PARTING = re.compile(f"[{SIGNS}\\n]")
"""What most secrets do not have inside."""

_SIGN = re.compile(f"[{SIGNS}]")
_LETTER = re.compile(r"[^\W_]")
_ENDS = tuple(sign.encode() for sign in SIGNS)
# What is unseen, and may go on with a blank: a terminal's sequence (ECMA-48, section 5.4), also as
# programs write it; a line that ends in a backslash, and one word of the next; a folded scalar.
_UNFINISHED = re.compile(
    rb"(?:(?:\x1b|\xc2\x9b|\^\[|\\(?:x1[bB]|u001[bB]|u\{1[bB]\}|0?33|[eE]))\[?[0-?]*[ -/]*"
    rb"|\x1b[\]PX^_][^\n\x07\x1b\\]*"
    rb"|\\(?:\r?\n|\\n)[ \t]*(?:[^\s\\]+\\?[ \t]*)?|\\[rn][ \t]*"
    rb"|>[0-9+-]{0,2}[ \t]*(?:\r?\n[ \t]+[!-~]+)*(?:\r?\n)?[ \t]*)\Z"
)
_HINTS = (b"\x1b", b"\xc2\x9b", b"^[", b"\\", b">")
_BLANK, _TAG, _MARKUP = re.compile(r"\s"), b"<", "[^<>]"
_NEAR, _PIECE = 256, 64
_ROWS = {"insert": inserted_values, "copy": copied_values}
# An object of JSON has no other one between its members, which the published rule leaves open.
_TIGHTER = (r"\{[^{]+(?:", r'\{\s*"[^{}]+(?:')


def candidates(text: str, start: int) -> Iterator[int]:
    """Give where *text* may be cut behind letter *start*: within lines, not where they begin."""
    for sign in _SIGN.finditer(text, start):
        line = text.rfind("\n", 0, sign.start()) + 1
        if _LETTER.search(text, line, sign.start()):
            yield sign.end()


class Boundaries:
    """Tells for *rules* whether anything goes on at the end of a text that is cut at a candidate.

    Raises `re2.error` for a rule that cannot be read.
    """

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._rules = rules

    def is_open(self, data: bytes, begin: int) -> bool:
        """Tell whether something that begins behind byte *begin* may go on behind *data*."""
        if any(hint in data for hint in _HINTS) and _UNFINISHED.search(data, begin):
            return True
        return self._is_plainly_open(data, begin) or any(
            not view.data.endswith(_ENDS) or self._is_plainly_open(view.data, 0)
            for view in views_to_end(data[begin:])
            if view.differs
        )

    def _is_plainly_open(self, data: bytes, begin: int) -> bool:
        return self._has_open_rule(data, begin) or self._has_open_name(data, begin)

    def _has_open_rule(self, data: bytes, begin: int) -> bool:
        always, words, numbers_of = self._searches
        unit = data[begin:]
        near = {number for index in words.match(unit) for number in numbers_of[index]}
        return any(self._is_open_rule(number, data, begin) for number in (*always, *near))

    def _is_open_rule(self, number: int, data: bytes, begin: int) -> bool:
        rule = self._rules[number]
        expression, beginnings, is_final = _search_of(rule.pattern)
        rows = _ROWS.get(rule.reader or "")
        for match in expression.finditer(data, begin) if is_final or rows else ():
            begin = match.end()
            name = match.span(expression.groupindex["name"]) if rows else (0, 0)
            if rows and goes_on(rows(data, name, begin)):
                return True
        # What begins with the blank at the end begins in the next piece as well.
        end = len(data) - max(len(sign) for sign in _ENDS if data.endswith(sign))
        start: int = beginnings.search(data, begin).start()
        return start < end

    def _has_open_name(self, data: bytes, begin: int) -> bool:
        """Tell whether what stands behind the name of a secret may be its value, if more comes."""
        for number in self._named:
            expression, _, _ = _search_of(self._rules[number].pattern)
            for match in expression.finditer(data, begin):
                if _is_open_name(data, *match.span(expression.groupindex["name"])):
                    return True
        return False

    @cached_property
    def _named(self) -> tuple[int, ...]:
        rules = enumerate(self._rules)
        return tuple([number for number, rule in rules if rule.reader == "assigned"])

    @cached_property
    def _searches(self) -> tuple[tuple[int, ...], ExpressionSet, list[list[int]]]:
        """Rules that are always looked at; words, and which rules to look at where one stands."""
        always, numbers_of = list[int](), dict[str, list[int]]()
        for number, rule in enumerate(self._rules):
            shape = PatternShape(rule.pattern.replace(*_TIGHTER))
            if not shape.goes_on_behind(SIGNS + "\n"):
                continue
            heads = [_BLANK.split(head)[0] for head in shape.heads()]
            for head in heads:
                numbers_of.setdefault(head, []).append(number)
            if not heads or not all(heads):
                always.append(number)
        return tuple(always), ExpressionSet(numbers_of, literal=True), list(numbers_of.values())


@lru_cache(maxsize=8)
def boundaries_of(rules: tuple[Rule, ...]) -> Boundaries:
    """Return the boundaries for *rules*: the same for all who use the same ones."""
    return Boundaries(rules)


def open_value(value: str) -> Any:
    """Return an expression for what ends in a beginning of *value*, in any form, with a blank."""
    beginnings = PatternShape(expression(value[:_PIECE])).beginnings()
    rest = "" if len(value) <= _PIECE else f"|(?:{expression(value[:_PIECE])})(?s:.)*"
    # Not by way of `compiled`: what a session knows is kept for nobody else.
    return compiled_once(f"(?:{beginnings}{rest})\\z")


def _is_open_name(data: bytes, start: int, stop: int) -> bool:
    while stop > start and data[stop - 1] in b".-":
        stop -= 1
    if name_kind(name_at(data, start, stop)) is None:
        return False
    if is_heading(data, start, stop) and goes_on(table_values(data, (start, stop), stop)):
        return True
    if len(data) - stop > LONG_REACH:
        return False
    usual, marked_up = _open_shapes()
    if usual.fullmatch(data, stop):
        return True
    is_in_markup = _TAG in data[max(0, start - _NEAR) : start]
    return is_in_markup and marked_up.fullmatch(data, stop) is not None


@cache
def _open_shapes() -> tuple[Any, Any]:
    """Return expressions for beginnings of what stands behind a name, without and with markup."""
    patterns = shape_patterns()
    usual = [BEYOND_WORDS, *[pattern for pattern in patterns if _MARKUP not in pattern]]
    marked_up = [pattern for pattern in patterns if _MARKUP in pattern]
    return _together(usual), _together(marked_up)


def _together(patterns: list[str]) -> Any:
    return compiled("|".join([f"(?:{PatternShape(pattern).beginnings()})" for pattern in patterns]))


@cache
def _search_of(pattern: str) -> tuple[Any, Any, bool]:
    """Return what finds matches of *pattern*, what the text ends in if one goes on, and a fact.

    That is whether a match that is whole stays as it is.
    """
    tighter = pattern.replace(*_TIGHTER)
    shape = PatternShape(tighter)
    return compiled(tighter), compiled(f"(?:{shape.beginnings()})\\z"), shape.ends_early()
