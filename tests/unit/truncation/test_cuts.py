"""Where a text may be cut."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from toolbus.truncation.cuts import cut_after, cut_before, is_cut

WHOLE = ["e\u0301", "\r\n", "👍🏽", "👨\u200d👩", "🇩🇪", "\u1112\u1161", "한\u11ab", "☀\ufe0f", "ก็"]


def test_nothing_is_cut_inside_a_character():
    for one in WHOLE:
        assert not is_cut(one, 1), one
        assert cut_before(f"a{one}b", 2) == 1
        assert cut_after(f"a{one}b", 2) == 1 + len(one)


def test_flags_are_pairs_from_the_first_one():
    text = "x🇩🇪🇫🇷"

    assert [at for at in range(6) if is_cut(text, at)] == [0, 1, 3, 5]


def test_marks_without_end_are_cut():
    text = "a" + "\u0301" * 1000

    assert cut_before(text, 500) == 500
    assert cut_after(text, 500) == 500


@given(st.text(), st.integers(-5, 50))
def test_a_place_is_in_the_text_and_on_its_side(text, at):
    before, after = cut_before(text, at), cut_after(text, at)

    assert 0 <= before <= max(at, 0)
    assert min(at, len(text)) <= after <= len(text)
    assert all(unicodedata.category(one) != "Mn" for one in text[before : before + 1]) or (
        before == 0 or at - before <= 64
    )
