import re

import pytest

from toolbus.redaction.secrets.placeholders import (
    evened,
    is_suffix,
    new_suffix,
    placeholders_in,
    without_placeholders,
)


def test_a_suffix_is_six_letters_and_a_letter_first():
    suffixes = {new_suffix() for _ in range(500)}

    assert len(suffixes) == 500
    assert all(re.fullmatch("[a-z][a-z2-7]{5}", suffix) for suffix in suffixes)
    assert all(map(is_suffix, suffixes))


@pytest.mark.parametrize("value", ["", "abc", "abcde1", "2abcde", "ABCDEF", "abcdef]", 5, None])
def test_what_is_no_suffix(value):
    assert not is_suffix(value)


@pytest.mark.parametrize(
    ("text", "even"),
    [
        ("key [github-pat-1-x7k2m5], [a-12-abcdef]", "key [github-pat-1], [a-12]"),
        ("[github-pat-1] [a-1-2abcde] [a-0-abcdef]", "[github-pat-1] [a-1-2abcde] [a-0-abcdef]"),
        ("[" * 9 + "aws-2-1-abcdef]", "[" * 9 + "aws-2-1]"),
    ],
)
def test_suffixes_are_evened_out(text, even):
    assert evened(text) == even
    assert evened(even) == even


def test_placeholders_are_found_with_their_suffix():
    text = "x [a-1-abcdef] y [b-2] z"

    assert placeholders_in(text) == ["[a-1-abcdef]"]
    assert without_placeholders(text) == "x  y  z"
