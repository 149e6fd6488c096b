import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.policy.paths.name_globs import fold, glob_quoted, name_glob, plain_name

NAMES = st.text(st.sampled_from("ab.*?[]-!\\"), min_size=1, max_size=8)
GLOBS = st.text(st.sampled_from("ab.*?"), max_size=8)
SHORT = [a + b + c for a in ["", "a", "b", "."] for b in ["", "a", "b", "."] for c in "ab."]


@given(NAMES)
def test_a_quoted_name_matches_itself_only(name):
    glob = name_glob(glob_quoted(name))

    assert glob.literal == name
    assert plain_name(name).meets(glob)
    assert not plain_name(f"{name}x").meets(glob)


@given(GLOBS, st.text(st.sampled_from("ab."), min_size=1, max_size=8))
def test_a_glob_matches_what_fnmatch_says(glob, name):
    assert plain_name(name).meets(name_glob(glob)) == fnmatch.fnmatchcase(name, glob)


@given(GLOBS, GLOBS)
def test_globs_meet_if_a_name_is_matched_by_both(first, second):
    if any(
        fnmatch.fnmatchcase(name, first) and fnmatch.fnmatchcase(name, second) for name in SHORT
    ):
        assert name_glob(first).meets(name_glob(second))
        assert name_glob(second).meets(name_glob(first))


@pytest.mark.parametrize(
    ("glob", "name"),
    [
        ("[a-c]x", "bx"),
        ("[!a]x", "bx"),
        ("[^a]x", "bx"),
        ("[]x]", "]"),
        ("[[:alpha:]]x", "bx"),
        ("[a", "[a"),
        ("[a\\]]", "]"),
        ("\\*", "*"),
        ("@(a|b).py", "b.py"),
        ("!(a).py", "b.py"),
        ("?(a", "anything"),
    ],
)
def test_what_shells_write(glob, name):
    assert plain_name(name).meets(name_glob(glob))


@pytest.mark.parametrize(
    ("glob", "name"), [("[a-c]x", "dx"), ("[!a]x", "ax"), ("?", ""), ("\\*", "a")]
)
def test_what_they_do_not_match(glob, name):
    assert not plain_name(name).meets(name_glob(glob))


def test_a_wildcard_at_the_start_hides_names_with_a_dot():
    dot = plain_name(".env")

    assert not dot.meets(name_glob("*"), dot=False)
    assert not dot.meets(name_glob("[.]env"), dot=False)
    assert dot.meets(name_glob(".*"), dot=False)
    assert dot.meets(name_glob("*"))


def test_a_long_glob_costs_the_product_of_both():
    stars = name_glob("*a" * 200 + "b")

    assert not plain_name("a" * 400).meets(stars)
    assert name_glob("*" * 5_000).tokens == (None,)


def test_names_that_file_systems_take_for_one_are_folded_alike():
    assert fold(".ENV") == fold(".env")
    assert fold("caf\u00e9") == fold("cafe\u0301")
    assert fold(".e\u200cnv") == fold(".env")
    assert fold("stra\u00dfe") == fold("STRASSE")
