"""Placeholders of 0.3: what it kept of them is written here as it wrote it."""

from base64 import urlsafe_b64encode
from hashlib import blake2b

import pytest

from toolbus.redaction.live_placeholders import FormerPlaceholders, held_placeholder, may_hold
from toolbus.redaction.placeholders import SessionPlaceholders

KEY, VALUES = b"k" * 32, ("first-secret", "second-secret")


def digest(value):
    data = blake2b(f"value:{value}".encode(), key=KEY, digest_size=16).digest()
    return urlsafe_b64encode(data).rstrip(b"=").decode()


STORED = {
    "numbers": {"mark": 2, "a-mark": 1},
    "suffix": "x7k2m5",
    "values": {"mark": {digest(VALUES[0]): 1, digest(VALUES[1]): 2}},
}
PERSONAL = {"numbers": {"email": 2}, "values": {"email": {"x": 1}}}


def former(stored=None, key=KEY):
    return FormerPlaceholders(STORED if stored is None else stored, lambda: key)


def held(text, stored=None):
    found = held_placeholder({"a": text}, SessionPlaceholders("s"), former(stored))
    return None if found is None else found.placeholder


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[mark-1-x7k2m5]", "[mark-1-…]"),
        ("is mark-2-x7k2m5?", "[mark-2-…]"),
        ("%5Ba-mark-1-x7k2m5%5D", "[a-mark-1-…]"),
        ("[mark-3-x7k2m5]", None),
        ("[mark-1-aaaaaa]", None),
        ("[mark-1]", None),
        ("[other-1-x7k2m5]", None),
    ],
)
def test_those_that_were_given_are_held(text, shown):
    assert may_hold(text)
    assert held(text) == shown


def test_those_for_personal_data_have_brackets():
    shown = [held(text, PERSONAL) for text in ("[email-2]", r"\[email-1\]", "[email-3]", "email-1")]

    assert shown == ["[email-2]", "[email-1]", None, None]


def test_a_value_is_found_by_its_digest():
    values = ["another", *VALUES]

    assert former().value_of("[mark-2-x7k2m5]", values) == VALUES[1]
    assert former().value_of("[mark-2-x7k2m5]", values[:2]) is None
    assert former().value_of("[mark-2-aaaaaa]", values) is None
    assert former().value_of("[a-mark-1-x7k2m5]", values) is None
    assert former(key=b"o" * 32).value_of("[mark-2-x7k2m5]", values) is None
    assert former(key=None).value_of("[mark-2-x7k2m5]", values) is None


@pytest.mark.parametrize(
    "stored",
    [
        *(5, {"numbers": [1]}, {"numbers": {"mark": "7"}}, {"suffix": "[a-1]"}, {"values": [1]}),
        *({"numbers": {"mark": True}}, {"numbers": {"[": 1}}, {"suffix": 5, "values": {"mark": 1}}),
    ],
)
def test_other_stored_forms_are_passed_over(stored):
    assert held("[mark-1-x7k2m5] [mark-1]", stored) is None
    assert former(stored).value_of("[mark-1-x7k2m5]", VALUES) is None
