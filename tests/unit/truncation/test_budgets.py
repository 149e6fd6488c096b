"""What fits a budget, from either end."""

from hypothesis import given
from hypothesis import strategies as st

from toolbus.truncation.budgets import Budget, estimate

BUDGETS = st.builds(
    Budget,
    st.integers(0, 60),
    st.none() | st.integers(0, 6),
    st.none() | st.integers(0, 30),
    st.sampled_from([None, len, lambda text: len(text.split())]),
)
TEXTS = st.text(alphabet=st.sampled_from("ab \n1é漢")) | st.text()


@given(TEXTS, BUDGETS)
def test_the_longest_head_and_tail_fit(text, budget):
    head, tail = budget.head(text, 0, len(text)), budget.tail(text, 0, len(text))

    for piece in (text[:head], text[tail:]):
        assert len(piece) <= budget.characters
        assert budget.tokens is None or budget.count_of(piece) <= budget.tokens or not piece
        assert budget.lines is None or len(piece.splitlines()) <= budget.lines or "\n" not in piece
    if budget.fits(text):
        assert (head, tail) == (len(text), 0)


@given(TEXTS, BUDGETS)
def test_a_ratio_below_one_says_that_it_is_too_much(text, budget):
    if text and not budget.fits(text):
        assert budget.ratio(text) < 1


def test_a_huge_text_is_counted_in_blocks():
    sizes = []

    def count(text):
        sizes.append(len(text))
        return len(text)

    assert not Budget(10**9, tokens=10_000, count=count).fits("x" * 1_000_000)
    assert max(sizes) <= 4_096
    assert sum(sizes) < 20_000


def test_an_estimate_knows_kinds_of_characters():
    assert estimate("") == 0
    assert estimate("the quick brown fox jumps over the lazy dog") in range(7, 12)
    assert estimate("9" * 100) > 3 * estimate("a" * 100)
    assert estimate("漢" * 100) > estimate("д" * 100) > estimate("d" * 100)
