"""Durations in buckets, and tables with a bounded number of names."""

from statistics import quantiles

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.bus.ledger.records import HandlerEntry
from toolbus.history.figures import OTHERS, Durations, Figures


def durations(values):
    counted = Durations()
    for value in values:
        counted.add(value)
    return counted


def entry(name="rule", status="ran", **values):
    return HandlerEntry(name=name, priority=1, kind="guard", status=status, **values)


@given(st.lists(st.integers(0, 2**62), min_size=1), st.sampled_from([0.5, 0.95, 1.0]))
def test_a_quantile_is_within_four_percent(values, share):
    exact = sorted(values)[max(0, -(-len(values) * round(share * 100) // 100) - 1)]

    assert durations(values).quantile(share) == pytest.approx(exact, rel=0.04)


def test_a_median_lies_between_those_of_the_library():
    values = [number * number for number in range(1, 2_000)]

    assert durations(values).quantile(0.95) == pytest.approx(quantiles(values, n=20)[-1], rel=0.04)


def test_count_and_total_are_exact():
    counted = durations([3, 1_000_003, -5])
    counted.merge(durations([10**18]))

    assert (counted.count, counted.total_ns) == (4, 10**18 + 1_000_006)


def test_no_durations_have_no_quantile():
    assert Durations().quantile(0.5) == 0


def test_a_million_durations_take_a_few_hundred_buckets():
    counted = durations([7**number % 2**63 for number in range(10_000)])

    assert len(counted._buckets) <= 64 * 16


def test_handlers_that_did_not_run_count_nothing():
    figures = Figures()
    for status in ("skipped", "not_run", "ran"):
        figures.add_entry(entry(status=status))
    figures.add_entry(entry("component", composite=True))

    assert {name: each.durations.count for name, each in figures.handlers.items()} == {"rule": 1}


@pytest.mark.parametrize(
    ("status", "effect"),
    [("changed", "changed"), ("denied", "denied"), ("asked", "asked"), ("answered", "answered")]
    + [(status, "failed") for status in ("failed", "timeout", "contract", "rejected")],
)
def test_each_effect_is_counted(status, effect):
    figures = Figures()
    figures.add_entry(entry(status=status))

    assert figures.handlers["rule"].effects == {effect: 1}


def test_names_are_bounded():
    figures = Figures()
    figures.add_calls({(f"tool-{number}", "ok"): 1 for number in range(300)})
    figures.add_calls({("x" * 1_000_000, "ok"): 1, ("tool-7", "error"): 2})

    assert len(figures.calls) == 201
    assert figures.calls[OTHERS] == {"ok": 101}
    assert figures.calls["tool-7"] == {"ok": 1, "error": 2}


def test_a_placeholder_counts_once_and_each_message_with_it():
    figures = Figures()
    for _ in range(2):
        figures.add_placeholders([("email", "[email-1]"), ("email", "[email-2]")])
    figures.add_placeholders([("pin", "[pin-1]")])

    assert figures.values == {"email": 2, "pin": 1}
    assert figures.messages == {"email": 2, "pin": 1}
