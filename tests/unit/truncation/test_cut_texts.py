"""Where a text may be cut."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from toolbus.truncation.cut_texts import cut, cut_text, find_words, is_cut

WHOLE = ["e\u0301", "\r\n", "👍🏽", "👨\u200d👩", "🇩🇪", "\u1112\u1161", "한\u11ab", "☀\ufe0f", "ก็"]


def test_nothing_is_cut_inside_a_character():
    for one in WHOLE:
        assert not is_cut(one, 1), one
        assert cut(f"a{one}b", 2, -1) == 1
        assert cut(f"a{one}b", 2, 1) == 1 + len(one)


def test_flags_are_pairs_from_the_first_one():
    text = "x🇩🇪🇫🇷"

    assert [at for at in range(6) if is_cut(text, at)] == [0, 1, 3, 5]


def test_marks_without_end_are_cut():
    text = "a" + "\u0301" * 1000

    assert cut(text, 500, -1) == 500
    assert cut(text, 500, 1) == 500


@given(st.text(), st.integers(-5, 50))
def test_a_place_is_in_the_text_and_on_its_side(text, at):
    before, after = cut(text, at, -1), cut(text, at, 1)

    assert 0 <= before <= max(at, 0)
    assert min(at, len(text)) <= after <= len(text)
    assert all(unicodedata.category(one) != "Mn" for one in text[before : before + 1]) or (
        before == 0 or at - before <= 64
    )


@given(
    st.text(alphabet="ab\n é"),
    st.integers(0, 60),
    st.floats(0, 1),
    st.lists(st.just("b"), max_size=1),
)
def test_a_text_is_cut_to_its_size(text, size, head, words):
    shown, end = cut_text(text, size, head, words)

    assert shown.startswith(text[:end])
    assert len(shown) <= max(size, 45)


def test_words_are_found_across_windows():
    text = "x" * 262_140 + "neeDle" + "x" * 262_140 + "İ NEEDLE"

    found = [text[start:end] for start, end in find_words(text, ["needle"], 0, len(text))]

    assert found == ["neeDle", "NEEDLE"]
