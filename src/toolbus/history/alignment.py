"""The alignment of two sequences: equal items, and similar items between them, in order."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import chain, pairwise, zip_longest
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    Keys: TypeAlias = Sequence[Hashable]
    Gap: TypeAlias = tuple[int, int, int, int]
    """A start and an end in the first sequence, and both in the second one."""
    Places: TypeAlias = dict[tuple[Hashable, int], int]

_ROUNDS = 8
"""The rounds of the search with each pair of keys, between the items that are aligned already.

`difflib` takes the square of the items where many are equal or many differ. A round here takes
n log n operations for any items; what all rounds leave over is aligned with nothing.
"""


def align(*keys: Sequence[Keys]) -> Iterator[tuple[int | None, int | None]]:
    """Yield the places of all items of two sequences in order, those of aligned items together.

    Each of *keys* has the keys of both sequences: items that share the first are aligned, then
    items between them that share the second, and so on.
    """
    pairs: list[tuple[int, int]] = []
    ends = len(keys[0][0]), len(keys[0][1])
    for olds, news in keys:
        for _ in range(_ROUNDS):
            gaps = list(_gaps(pairs, ends))
            new_pairs = chain.from_iterable([_matches(olds, news, gap) for gap in gaps])
            count = len(pairs)
            pairs += new_pairs
            if len(pairs) == count:
                break
    for old, old_end, new, new_end in _gaps(pairs, ends):
        yield from zip_longest(range(old, old_end), ())
        yield from [(None, place) for place in range(new, new_end)]
        if (old_end, new_end) != ends:
            yield old_end, new_end


def _gaps(pairs: Iterable[tuple[int, int]], ends: tuple[int, int]) -> Iterator[Gap]:
    """Yield the gap before each of *pairs*, in order, and the one behind them."""
    for (old, new), (old_end, new_end) in pairwise([(-1, -1), *sorted(pairs), ends]):
        yield old + 1, old_end, new + 1, new_end


def _matches(olds: Keys, news: Keys, gap: Gap) -> Iterator[tuple[int, int]]:
    """Yield pairs of places in *gap* with equal keys: at both ends, and between these a chain."""
    old, old_end, new, new_end = gap
    while old < old_end and new < new_end and olds[old] == news[new]:
        yield old, new
        old, new = old + 1, new + 1
    while old < old_end and new < new_end and olds[old_end - 1] == news[new_end - 1]:
        old_end, new_end = old_end - 1, new_end - 1
        yield old_end, new_end
    between = _common(_numbered(olds, old, old_end), _numbered(news, new, new_end))
    yield from _longest_increasing(between)


def _numbered(keys: Keys, start: int, end: int) -> Places:
    """Return the places of the keys from *start* to *end*; equal ones are numbered in order."""
    places: Places = {}
    counts = Counter[object]()
    for place in range(start, end):
        places[keys[place], counts[keys[place]]] = place
        counts[keys[place]] += 1
    return places


def _common(olds: Places, news: Places) -> list[tuple[int, int]]:
    """Return the places of the keys of both sides, in the order of the first.

    If keys occur once on both sides, only these: other items have a place between them.
    """
    repeated = {key for key, number in chain(olds, news) if number}
    pairs = [(key, (old, news[key])) for key, old in olds.items() if key in news]
    unique = [places for key, places in pairs if key[0] not in repeated]
    return unique or [places for _, places in pairs]


def _longest_increasing(pairs: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the longest sequence of *pairs* that increases on both sides, from its end.

    *Pairs* increase on the first side. This is patience sorting.
    """
    tops: list[int] = []
    top_pairs: list[int] = []
    previous: list[int] = []
    for index, (_, new) in enumerate(pairs):
        pile = bisect_left(tops, new)
        previous.append(top_pairs[pile - 1] if pile else -1)
        tops[pile : pile + 1], top_pairs[pile : pile + 1] = [new], [index]
    index = top_pairs[-1] if top_pairs else -1
    while index >= 0:
        yield pairs[index]
        index = previous[index]
