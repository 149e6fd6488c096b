"""The measure of randomness of a value, against words of natural languages and of code."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from math import log2

# The 200 most frequent pairs of letters in identifiers: 83 % of all pairs there, and 30 % of the
# pairs in random letters. Counted in 80,000 identifiers of open source code.
_PAIRS = """
    a:abcdegiklmnpqrstu b:aeilu c:aehiklortu d:adeios e:acdefglmnpqrstvwxy f:aefilor g:eirs
    h:aeio i:abcdefglmnoprstvz k:e l:adeilostu m:abeimop n:acdefgiostu o:abcdflmnoprstuvw
    p:aeiloprstu q:au r:acdegimnorstuy s:acehikopstuy t:acehiorstuy u:beilmnprst v:aei w:ir x:t
    y:ps z:e
"""
_COMMON = frozenset(group[0] + letter for group in _PAIRS.split() for letter in group[2:])
_CHUNK = re.compile(r"[A-Za-z0-9]+")
_HEXADECIMAL = re.compile(r"[0-9a-f]{8,}|[0-9A-F]{8,}")
# The weight of a pair of neighbours for or against randomness, measured on the same words.
_BOUNDARY, _DIGITS, _CAMEL, _USUAL, _UNUSUAL = 1.5, -0.4, 0.3, -1.0, 2.0
# The least average weight of a character, over the first characters of a long run.
_LEAST, _LONG = 0.35, 16
_IN_ORDER = 0.4
# Entropy is not significant for shorter values; longer values are not words.
_TELLING, _LEAST_TELLING, _NO_WORD = 8, 2.5, 16


def entropy(text: str) -> float:
    """Return the entropy of *text* in bits a character, by frequency (Shannon)."""
    counts, size = Counter(text), len(text)
    return -sum([count / size * log2(count / size) for count in counts.values()])


def is_telling(value: str) -> bool:
    """Return whether *value* is distinctive: the same secret in any text.

    A short password, or a word, has other meanings in other texts.
    """
    if len(value) < _TELLING or entropy(value) < _LEAST_TELLING:
        return False
    return len(value) >= _NO_WORD or not (value.isalpha() and value.islower())


def random_length(value: str) -> int:
    """Return the number of letters and digits in the random run of *value*, or 0.

    For `correct-horse-7Xk2pQ9v` the result is 8, for `handlers_v3.py` 0.
    """
    best = weight = 0.0
    best_length = length = 0
    for chunk in _CHUNK.findall(value):
        weight, length = weight + _weight(chunk), length + len(chunk)
        if weight <= 0:
            weight, length = 0.0, 0
        elif weight > best:
            best, best_length = weight, length
    return 0 if best < _LEAST * min(best_length, _LONG) else best_length


def _weight(chunk: str) -> float:
    """Return the weight of *chunk*, letters and digits: above 0 if random, below 0 for words."""
    if chunk.isdigit():
        return 0.0
    if _HEXADECIMAL.fullmatch(chunk) and not chunk.isalpha():
        return float(len(chunk))
    return sum(map(_pair_weight, chunk, chunk[1:]))


@lru_cache(maxsize=4_096)
def _pair_weight(first: str, second: str) -> float:
    if first.isdigit() != second.isdigit():
        return _BOUNDARY
    if first.isdigit():
        return _DIGITS
    if first.islower() and second.isupper():
        return _CAMEL
    return _USUAL if (first + second).lower() in _COMMON else _UNUSUAL


def is_in_order(value: str) -> bool:
    """Return whether much of *value* is in sequence, such as `abcdef`, `01234` or `aaaa`."""
    codes = value.encode()
    near = [1 for first, second in pairwise(codes) if -2 < second - first < 2]  # noqa: PLR2004
    return len(near) > _IN_ORDER * (len(codes) - 1)
