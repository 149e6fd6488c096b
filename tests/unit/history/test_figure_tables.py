"""The rows of plots."""

import pytest

from toolbus.history.figure_tables import count_rows


def test_rows_have_all_numbers_the_longest_first():
    rows = count_rows({"write": {"denied": 2}, "read": {"ok": 3, "error": 1}, "idle": {}})

    assert [row.label for row in rows] == ["read", "write"]
    assert rows[0].parts == {"ok": 3, "denied": 0, "error": 1}
    assert rows[0].cells == {"total": "4", "ok": "3", "denied": "0", "error": "1"}
    assert list(rows[1].cells) == ["total", "ok", "denied", "error"]


def test_one_kind_needs_no_total():
    (row,) = count_rows({"a": {"questions": 1_000}})

    assert row.cells == {"questions": "1,000"}


@pytest.mark.parametrize("counts", [{}, {"a": {"n": 0}}])
def test_nothing_has_no_rows(counts):
    assert count_rows(counts) == []
