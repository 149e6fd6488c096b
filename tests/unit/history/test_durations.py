"""Durations as text."""

import pytest

from toolbus.history.durations import duration_of, rough_duration


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [(0, "0 µs"), (999_400, "999 µs"), (1_000_000, "1.0 ms"), (2_345_678_901, "2,345.7 ms")],
)
def test_durations_have_a_fitting_unit(duration_ns, text):
    assert duration_of(duration_ns) == text


SECOND = 10**9


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3_600 * 3 + 330, "3 h 5 min"),
        (86_400, "1 d"),
        (86_400 * 1_500 + 7_200, "1,500 d 2 h"),
    ],
)
def test_a_rough_duration_has_its_two_largest_units(seconds, text):
    assert rough_duration(int(seconds * SECOND)) == text
