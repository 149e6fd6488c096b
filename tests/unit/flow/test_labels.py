"""Labels: their algebra, and their line of text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.flow.labels import UNSEEN, Label, read_label

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@st.composite
def labels(draw):
    name = draw(st.just("") | NAMES)
    is_known = draw(st.booleans())
    return Label(
        speaker=draw(st.sampled_from(["person", "system", "model", "tool", "agent", "unknown"])),
        name=name,
        server=draw(st.just("") | NAMES) if name else "",
        is_trusted=is_known and draw(st.booleans()),
        is_known=is_known,
        holds=draw(st.frozensets(NAMES, max_size=3)),
    )


@given(labels())
def test_a_line_of_text_is_read_back(label):
    assert read_label(label.text) == label
    assert "\n" not in label.text


@given(st.text())
def test_any_other_text_is_no_trusted_label(text):
    label = read_label(text)

    assert label == UNSEEN or label.text.split(" · ")[0] == text.split(" · ")[0]


@given(labels(), st.lists(labels(), max_size=4))
def test_a_joined_label_has_all_doubts_and_kinds(label, others):
    joined = label.joined(others)

    assert joined.names >= frozenset().union(label.names, *[other.names for other in others])
    assert joined.joined(others) is joined
    assert joined.joined([label]) is joined
    assert (joined.speaker, joined.name) == (label.speaker, label.name)


@given(labels(), labels())
def test_joins_of_two_labels_agree(one, two):
    assert two.lowers(one) == (one.joined([two]) != one)
    assert one.joined([two]).names == two.joined([one]).names


@pytest.mark.parametrize("text", ["", "trusted", "trusted · nobody", "trusted · tool a of", "yes"])
def test_a_broken_line_is_unknown(text):
    assert read_label(text) == UNSEEN
