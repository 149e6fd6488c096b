"""What `specs` should not mention of the hunt for the smallest case."""

import pytest
from hypothesis import strategies as st

from toolbus.errors import LawBroken
from toolbus.testing import case_search
from toolbus.testing.case_search import search_cases
from toolbus.testing.laws import breach


def test_another_law_s_case_is_no_smaller_one():
    first = []

    def examine(draw):
        number = draw(st.integers(0, 1_000))
        law = "ends" if number < 0 else "repeatable" if number >= 10 else "says-why"
        first.append(law)
        raise breach(law, "it", "does", {"number": number})

    with pytest.raises(LawBroken) as caught:
        search_cases(examine, examples=100, seed=3)

    assert caught.value.law == first[0]
    assert caught.value.case["number"] == {"repeatable": 10, "says-why": 0}[first[0]]


def test_what_happens_once_is_told_as_such():
    calls = []

    def examine(draw):
        draw(st.integers())
        calls.append(1)
        if len(calls) == 5:
            raise breach("repeatable", "it", "does", {})

    with pytest.raises(LawBroken) as caught:
        search_cases(examine, examples=100, seed=0)

    assert caught.value.__notes__ == [
        "  it did so once but not each time: it depends on earlier calls, or on random numbers"
    ]


def test_the_hunt_for_a_smaller_case_ends(monkeypatch):
    monkeypatch.setattr(case_search, "MOST_TRIES", 5)
    tries = []

    def examine(draw):
        numbers = draw(st.lists(st.integers(), min_size=20, max_size=20))
        if tries or sum(numbers) > 1_000:
            tries.append(numbers)
        if sum(numbers) > 1_000:
            raise breach("repeatable", "it", "does", {})

    with pytest.raises(LawBroken):
        search_cases(examine, examples=10, seed=1)

    assert len(tries) == 1 + 5


def test_nothing_to_draw_is_an_error():
    with pytest.raises(ValueError, match="no case can be drawn"):
        search_cases(lambda draw: draw(st.nothing()), examples=5, seed=0)


def test_an_error_of_the_check_itself_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        search_cases(lambda draw: draw(st.just(0)) / 0, examples=5, seed=0)
