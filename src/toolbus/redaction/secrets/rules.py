"""The rules by which credentials are found: the published set, ours, and a user's own.

Ours are formats that the published set leaves out, and the shapes that secrets stand in. Each was
added because examples of the half that we develop with were missed without it; how much each group
brings stands in the table of `benchmarks/bench_redaction.py`.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, convert

from toolbus.errors import RegistrationError
from toolbus.redaction.secrets.builtin.commands import COMMANDS, DATABASES
from toolbus.redaction.secrets.builtin.formats import KNOWN_FORMATS, STORED_SECRETS, WEB
from toolbus.redaction.secrets.builtin.grammar import NAME, BuiltinRule
from toolbus.redaction.secrets.builtin.shapes import PROSE, TABLES, VALUES_FIRST
from toolbus.redaction.secrets.names import NameKind
from toolbus.settings.hints import hint

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

NAMED = BuiltinRule("assigned-secret", rf"(?i){NAME}", loose=True, reader="assigned")
"""Names are sought in one pass; what stands behind each, `assigned` reads."""

BUILTIN_RULES = (
    *KNOWN_FORMATS,
    *STORED_SECRETS,
    *DATABASES,
    *COMMANDS,
    *WEB,
    NAMED,
    *VALUES_FIRST,
    *PROSE,
    *TABLES,
)
"""Of two that find the same the first gives the name."""


_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,59}")


class Rule(Struct, frozen=True):
    """A *pattern* in RE2's syntax; what *group* or the group `value` holds is the secret.

    Without both it is what the first other group holds that is not empty. A *loose* one goes by
    what stands around a value, so the value itself is judged more strictly, and only *assumed* to
    be a secret. If its pattern has a group `name`, that is the name which the value is assigned to,
    or the end of it, from a word on that tells: `names` judges it, so the pattern may be broad.
    Without a name the *kind* of the value is that of the rule. With a *reader*, one of `READERS`,
    the values stand behind the match. A *keyed* one goes by a vendor's name and is strict for the
    rest, so its value is known, if any of it looks random. A *foreign* one is a user's.

    One of the *keywords*, in lower case, stands in whatever it matches, in any case: where none
    does, it is not looked for. With none of them it always is.
    """

    name: str
    pattern: str
    group: int | str | None = None
    loose: bool = False
    kind: NameKind | None = None
    reader: str | None = None
    keyed: bool = False
    keywords: tuple[str, ...] = ()
    foreign: bool = False


class _RuleFile(Struct):
    source: dict[str, str]
    rules: tuple[Rule, ...]
    builtin_keywords: dict[str, tuple[str, ...]]


@lru_cache(maxsize=1)
def _rule_file() -> _RuleFile:
    # What else reads a file beside a module takes longer to import than all this takes.
    with open(os.path.join(os.path.dirname(__file__), "rules.json"), "rb") as file:  # noqa: PTH118, PTH120, PTH123
        data = file.read()
    return msgspec.json.decode(data, type=_RuleFile)


def published() -> tuple[Rule, ...]:
    """Return the published rules; `rules.NOTICE` beside this file says whose they are."""
    return _rule_file().rules


@lru_cache(maxsize=1)
def builtin() -> tuple[Rule, ...]:
    """Return our rules, for what the published ones leave out."""
    # By the pattern: of a rule that was changed since the words were told there are none.
    keywords = _rule_file().builtin_keywords
    rules = [
        {**rule._asdict(), "keywords": keywords.get(rule.pattern, ())} for rule in BUILTIN_RULES
    ]
    return convert(rules, tuple[Rule, ...])


def choose(
    only: Collection[str], without: Collection[str], custom: Mapping[str, str]
) -> tuple[Rule, ...]:
    """Return the rules called *only*, else all, but those called *without*, and *custom*.

    Raises `RegistrationError` for a name that no rule has, and for one that a rule cannot have.
    """
    for name in custom:
        if not _NAME.fullmatch(name):
            reason = (
                "a rule's name becomes its placeholder's; take lower-case letters, digits and -"
            )
            raise RegistrationError(f"rule {name!r}", reason)
    # A user's own come first, so that their names are the ones to be read.
    rules = (
        *[Rule(name, pattern, foreign=True) for name, pattern in custom.items()],
        *published(),
        *builtin(),
    )
    known = {rule.name for rule in rules}
    for name in (*only, *without):
        if name not in known:
            raise RegistrationError(f"rule {name!r}", f"there is none{hint(name, known)}")
    wanted = set(only or known) - set(without)
    return tuple([rule for rule in rules if rule.name in wanted])
