"""Hints at the end of an error."""

import pytest

from toolbus.settings.hints import hint, nearest, unknown_key

KNOWN = [f"word{number}" for number in range(30)]


def test_a_list_of_known_names_is_never_cut():
    assert hint("zzz", KNOWN) == f"; known: {', '.join(sorted(KNOWN))}"
    assert unknown_key("zzz", KNOWN) == f"unknown key 'zzz'; known: {', '.join(sorted(KNOWN))}"


@pytest.mark.parametrize("word", ["effcts", "efects"])
def test_a_similar_name_takes_the_place_of_the_list(word):
    assert hint(word, ["effects", "reads"]) == "; did you mean 'effects'?"
    assert nearest(word, ["effects", "reads"]) == "; did you mean 'effects'?"


def test_without_any_name_the_hint_says_so():
    assert hint("x", ()) == "; known: none"
