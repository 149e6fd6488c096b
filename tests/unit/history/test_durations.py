"""Durations as text."""

import pytest

from toolbus.history.durations import duration_of


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [(0, "0 µs"), (999_400, "999 µs"), (1_000_000, "1.0 ms"), (2_345_678_901, "2,345.7 ms")],
)
def test_durations_have_a_fitting_unit(duration_ns, text):
    assert duration_of(duration_ns) == text
