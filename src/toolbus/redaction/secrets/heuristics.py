"""Whether a value that a rule found can be a secret at all, or only looks like one."""

from __future__ import annotations

import re
from collections import Counter
from math import log2

from toolbus.redaction.secrets.names import NameKind

# Of a value of random letters and digits nearly all have more; of words and of fillers few.
_LEAST, _LEAST_LOOSE = 2.0, 3.0
# Of what is shorter the entropy says nothing.
_JUDGED, _DIGITS = 16, 2
_TELLING, _LEAST_TELLING = 8, 2.5
_STAND_IN = re.compile(
    r"""(?ix)
      ^ [$%<{\[] | [>}] $ | \$ [({]           # a variable, a template, a gap to be filled
    | (?: public | private | secret ) _? key   # what a program calls a key
    | EXAMPLE | placeholder | changeme | redacted | dummy | your[_-]
    | x{8} | \*{4} | \.{4}
    """
)
_LOOKS_LIKE = re.compile(
    r"""(?ix)
      [0-9a-f]{8} (?: -[0-9a-f]{4} ){3} -[0-9a-f]{12}   # a UUID
    | (?: sha\d+ | md5 | blake2[bs] )[-_:=] .+           # a digest that says so
    | [a-z]+ (?: [_./:+~=-]+ [a-z]+ )* \d{0,4}           # words
    | \d+ (?: [_./:+~=-] \d+ )*                          # numbers, dates, versions
    | (?: https? | file | [a-z]+:/ ) /.+                 # an address
    | (?: [~.]{0,2}/ | [a-z]: ) [\w .@-]+ (?: /[\w .@-]+ )+  # a path
    """
)


_UUID = re.compile(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LETTERS_AND_SIGNS = re.compile(r"(?=.*[^\W\d_].*[^\W\d_])(?=.*[0-9!@#$%^&*+?])")
_MEMBERS = re.compile(r"[./:]|^[A-Za-z]+_[A-Za-z_]+\d?$")


def entropy(text: str) -> float:
    """Return the bits of a character of *text*, by how often each occurs (Shannon)."""
    counts, size = Counter(text), len(text)
    return -sum([count / size * log2(count / size) for count in counts.values()])


def is_plausible(value: str, *, loose: bool) -> bool:
    """Tell whether *value* can be a secret; one that was found *loosely* must look random."""
    if _STAND_IN.search(value) or not value.strip("xX0*.- "):
        return False
    if not loose:
        return len(value) < _JUDGED or entropy(value) >= _LEAST
    digits = sum(map(str.isdigit, value))
    if digits < _DIGITS or digits == len(value) or entropy(value) < _LEAST_LOOSE:
        return False
    return not _LOOKS_LIKE.fullmatch(value)


def is_assigned_secret(value: str, kind: NameKind) -> bool:
    """Tell whether *value* can be a secret beside a name of *kind*."""
    if not is_plausible(value, loose=False):
        return False
    if kind is not NameKind.KEY and _UUID.fullmatch(value):
        return True
    if len(value) < (_TELLING if kind is not NameKind.KEY else _JUDGED):
        return False
    if kind is NameKind.PASSWORD and _looks_chosen(value):
        return True
    return is_plausible(value, loose=True)


def _looks_chosen(value: str) -> bool:
    """Tell whether people choose passwords like *value*: of letters, and of digits or signs."""
    return bool(_LETTERS_AND_SIGNS.match(value)) and not _MEMBERS.search(value)


def is_telling(value: str) -> bool:
    """Tell whether *value* may be taken for the same secret wherever it stands.

    A short password, or one that is a word, stands in other texts for something else.
    """
    if len(value) < _TELLING or entropy(value) < _LEAST_TELLING:
        return False
    return len(value) >= _JUDGED or not (value.isalpha() and value.islower())
