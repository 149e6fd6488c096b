"""Bars in percent of the highest one, and the numbers beside them."""

import pytest

from toolbus.ui.plots import plot_bars

CALLS = {"read": {"ok": 3, "error": 1}, "write": {"denied": 2}, "idle": {}}


def test_bars_are_relative_to_the_highest():
    plot = plot_bars("Calls", CALLS)

    assert [(bar.label, bar.value, bar.top) for bar in plot.bars] == [
        ("read", "4", 0),
        ("write", "2", 40),
        ("idle", "0", 80),
    ]
    segments = [[(part.kind, part.start, part.width) for part in bar.segments] for bar in plot.bars]
    assert segments == [[("ok", 0, 75), ("error", 75, 25)], [("denied", 0, 50)], []]
    assert (plot.height, plot.kinds) == (120, ("ok", "denied", "error"))


def test_the_table_has_all_numbers():
    plot = plot_bars("Calls", CALLS)

    assert plot.columns == ("total", "ok", "denied", "error")
    assert plot.rows == (
        ("read", "4", "3", "0", "1"),
        ("write", "2", "0", "2", "0"),
        ("idle", "0", "0", "0", "0"),
    )


def test_one_kind_needs_no_total_and_facts_are_further_columns():
    plot = plot_bars("Time", {"a": {"time": 5}}, text_of="{} µs".format, facts={"a": {"runs": "2"}})

    assert (plot.columns, plot.rows) == (("time", "runs"), (("a", "5 µs", "2"),))
    assert plot.bars[0].value == "5 µs"


@pytest.mark.parametrize("counts", [{}, {"a": {"n": 0}}])
def test_nothing_has_no_width(counts):
    plot = plot_bars("Nothing", counts)

    assert [bar.segments for bar in plot.bars] == [()] * len(counts)
    assert len(plot.rows) == len(counts)


def test_bars_and_rows_are_bounded():
    plot = plot_bars("Many", {f"{number}": {"n": 1} for number in range(130)})

    assert (len(plot.bars), len(plot.rows), plot.further) == (20, 50, 80)
