"""The alignment of two sequences: complete, in order, and fast for any items."""

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.history.alignment import align

LETTERS = st.lists(st.sampled_from("abcd"), max_size=12)


@given(LETTERS, LETTERS)
def test_each_item_has_one_place_in_order(left, right):
    pairs = list(align([left, right], [["x"] * len(left), ["x"] * len(right)]))

    for side, length in ((0, len(left)), (1, len(right))):
        assert [pair[side] for pair in pairs if pair[side] is not None] == list(range(length))
    assert all(pair != (None, None) for pair in pairs)


@given(LETTERS)
def test_equal_sequences_are_aligned_whole(items):
    assert list(align([items, items])) == [(place, place) for place in range(len(items))]


@given(LETTERS, LETTERS)
def test_only_equal_keys_are_aligned(left, right):
    pairs = align([left, right])

    assert all(left[old] == right[new] for old, new in pairs if None not in (old, new))


@given(LETTERS, st.integers(0, 12), st.sampled_from("abcde"))
def test_a_single_additional_item_stands_alone(items, place, item):
    longer = [*items[:place], item, *items[place:]]

    alone = [pair for pair in align([items, longer]) if None in pair]

    assert len(alone) == 1


def test_unique_items_are_aligned_before_repeated_ones():
    pairs = align([list("xAxBx"), list("xxAxBxx")])

    assert [("xAxBx"[old], new) for old, new in pairs if None not in (old, new)] == [
        ("x", 0),
        ("A", 2),
        ("x", 3),
        ("B", 4),
        ("x", 6),
    ]


def test_similar_items_stay_between_equal_ones():
    exact = ["a1", "b1", "a2", "c"], ["a3", "b1", "a4", "a5"]
    loose = [[key[0] for key in side] for side in exact]

    assert list(align(exact, loose)) == [(0, 0), (1, 1), (2, 2), (3, None), (None, 3)]


@pytest.mark.parametrize("kind", ["equal", "alternating", "reversed", "disjoint", "few"])
def test_twenty_thousand_items_take_no_square_of_time(kind):
    numbers = range(20_000)
    left, right = {
        "equal": ([0] * 20_000, [0] * 20_000),
        "alternating": (
            [number if number % 2 else -number for number in numbers],
            [number if number % 2 else -number - 1_000_000 for number in numbers],
        ),
        "reversed": (list(numbers), list(reversed(numbers))),
        "disjoint": (list(numbers), list(range(20_000, 40_000))),
        "few": (
            [number * number % 7 for number in numbers],
            [number * number % 11 for number in numbers],
        ),
    }[kind]
    start = process_time()

    pairs = list(align([left, right], [[0] * 20_000, [0] * 20_000]))

    assert len(pairs) >= 20_000
    # `difflib` takes minutes for equal items.
    assert process_time() - start < 10
