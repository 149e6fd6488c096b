"""Texts of every length, and numbers at every place of them."""

import asyncio

import pytest
from benchmarks.published import PUBLISHED
from benchmarks.redaction.personal_noise import noise
from hypothesis import given
from hypothesis import strategies as st
from stdnum import luhn

from toolbus.redaction.limits import ScanLimits, at_once
from toolbus.redaction.personal.detector import Detector
from toolbus.redaction.personal.matches import Appraisal
from toolbus.redaction.placeholders import SessionPlaceholders

LIMITS = ScanLimits(8_000_000, 5.0)
KINDS = ("email", "phone", "card", "iban", "national-id")
CARD = "4242 4242 4242 4242"


@pytest.fixture(scope="module")
def examiner():
    return Detector(KINDS, None, ())


IBAN = "DE89 3704 0044 0532 0130 00"


def replaced(examiner, text):
    """Return *text* with the kind in place of what was found."""
    return at_once(examiner.replace(text, lambda kind, _: f"[{kind}]", Appraisal(LIMITS)))


def test_a_number_is_found_wherever_it_stands_in_a_long_line(examiner):
    for at in (0, 1, 7_000, 7_168, 7_676, 7_690, 8_192, 8_202, 8_212, 15_400, 130_000):
        for filler in ("x ", "1 2-"):
            text = (filler * 40_000)[:at] + f" {CARD} " + filler * 100
            left = replaced(examiner, text)
            assert "[card]" in left, (at, filler)
            assert CARD not in left


def test_a_number_is_not_cut_at_the_edge_of_a_piece(examiner):
    for at in range(7_100, 8_300, 17):
        text = "1 " + "x" * at + f" {CARD} " + "x" * 70_000
        assert replaced(examiner, text) == text.replace(CARD, "[card]")


def test_half_a_card_is_no_card(examiner):
    # Its first 13 digits are a card as well, and the first piece ends behind them.
    card = next(one for n in range(1000) if luhn.is_valid(one := f"4222222222222{n:03}"))
    start = len("1 2 3 4 5 6") + (1 << 13) - 13
    text = f"{'1 2 3 4 5 6 ':x<{start - 1}} {card} " + "x" * 1000

    assert replaced(examiner, text) == text.replace(card, "[card]")


def test_many_lines_are_all_searched(examiner):
    text = "".join([f"line {n}\nmail{n}@example.com pays with {CARD}\n\n" for n in range(500)])

    left = replaced(examiner, text)

    assert left.count("[card]") == left.count("[email]") == 500
    assert "@" not in left


NUMBERS = st.sampled_from([number for numbers in PUBLISHED.values() for number in numbers])
SIGNS = st.sampled_from(
    [
        "ssn",
        "phone",
        "card",
        "to:",
        " ",
        "\n",
        "-",
        "/",
        ".",
        "12",
        "é",
        "\\n",
        "%20",
        "\x1b[1m",
        "(",
        '"',
    ]
)
LINES = st.sampled_from([line for _, line in noise(100)])


def salted_placeholders():
    session = SessionPlaceholders("s")

    async def name():
        return session.of("card", CARD)

    asyncio.run(session.salted(name))
    return session


@given(st.lists(st.one_of(NUMBERS, SIGNS, SIGNS, LINES), max_size=10))
def test_what_was_replaced_is_never_found_again(examiner, pieces):
    session = salted_placeholders()

    first = at_once(examiner.replace("".join(pieces), session.of, Appraisal(LIMITS)))

    assert at_once(examiner.replace(first, session.of, Appraisal(LIMITS))) == first


@given(st.lists(st.one_of(SIGNS, LINES), max_size=5), st.lists(SIGNS, max_size=5))
def test_an_iban_is_found_among_anything(examiner, before, behind):
    text = f"{''.join(before)} <{IBAN}> {''.join(behind)}"

    assert IBAN not in replaced(examiner, text)


def test_what_stood_beside_another_number_is_found_at_once(examiner):
    assert replaced(examiner, f"{CARD} 415 555 2671") == "[card] [phone]"


def test_a_number_that_the_library_fails_at_is_taken(examiner):
    # Its check digit is right, and its place of birth is a number that was given to no county.
    assert replaced(examiner, "110019199001010013") == "[national-id]"


@pytest.mark.parametrize(
    "text",
    [
        "4242 4242 4242 4242 123",
        "BE68 5390 0754 7034 paid",
        "(415) 555-2671 2 times",
        "+49 30 901820 12 34",
        "12 (415) 555-2671",
        "2 55 08 14 168 025 38 7",
        "2024 4242 4242 4242 4242 12/27 123",
    ],
)
def test_what_stands_around_a_number_does_not_hide_it(examiner, text):
    left = replaced(examiner, text)

    assert "[" in left
    assert len(left) < len(text)
