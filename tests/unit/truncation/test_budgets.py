"""What fits a budget, and what fills it."""

from hypothesis import given
from hypothesis import strategies as st

from toolbus.truncation import budgets
from toolbus.truncation.budgets import TextBudget, estimate

BUDGETS = st.builds(TextBudget, st.integers(0, 60), st.none() | st.integers(0, 30))
TEXTS = st.text(alphabet=st.sampled_from("ab \n1é漢")) | st.text()


@given(TEXTS, BUDGETS)
def test_what_fits_is_within_all_limits(text, budget):
    within = len(text) <= budget.characters
    within &= budget.tokens is None or estimate(text) <= budget.tokens

    assert budget.fits(text) == within
    assert (budget.excess(text) <= 0) == within


@given(TEXTS, BUDGETS, st.integers(0, 9), st.integers(1, 4))
def test_what_fills_a_budget_fits(text, budget, mark, width):
    def made(size):
        return text[:size] * width + "." * mark

    filled = budget.fill(text, made, str)

    assert budget.fits(filled) or filled == made(0)


def test_a_budget_is_filled():
    text = "some words of a text\n" * 2000

    by_characters = TextBudget(1000).fill(text, lambda size: text[:size] + "!" * 100, str)
    by_tokens = TextBudget(10_000, 500).fill(text, lambda size: text[:size] + "!" * 10, str)

    assert len(by_characters) > 900
    assert estimate(by_tokens) > 450


def test_a_huge_text_is_not_counted(monkeypatch):
    monkeypatch.delattr(budgets, "estimate")

    assert not TextBudget(10_000, tokens=10_000).fits("x" * 1_000_000)


def test_an_estimate_knows_kinds_of_characters():
    assert estimate("") == 0
    assert estimate("the quick brown fox jumps over the lazy dog") in range(7, 12)
    assert estimate("9" * 100) > 3 * estimate("a" * 100)
    assert estimate("漢" * 100) > estimate("д" * 100) > estimate("d" * 100)
