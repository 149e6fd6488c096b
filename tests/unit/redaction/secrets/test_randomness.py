import string
from random import Random

import pytest

from toolbus.redaction.secrets.randomness import entropy, is_in_order, random_length

ALPHABETS = {
    "hexadecimal": "0123456789abcdef",
    "base32": string.ascii_uppercase + "234567",
    "base36": string.ascii_lowercase + string.digits,
    "base62": string.ascii_letters + string.digits,
    "base64": string.ascii_letters + string.digits + "+/",
    "letters": string.ascii_letters,
}


@pytest.mark.parametrize("alphabet", ALPHABETS.values(), ids=ALPHABETS)
def test_random_letters_look_random(alphabet):
    random = Random(5)
    values = ["".join(random.choices(alphabet, k=32)) for _ in range(500)]

    assert len([value for value in values if random_length(value) < 12]) <= 5


WORDS = """
    services/api2/handlers_v3.py AcceptanceTimeoutSeconds x86_64-linux-gnu registry.corp/app:1.2.3
    correct-horse-battery-staple gss_krb5_lucid_context_version TR31_C0_CARD_VERIFICATION_KEY
    collaborationConfiguredModelAlgorithmAssociations 20260131T120000Z
"""


def test_words_and_numbers_do_not():
    assert [value for value in WORDS.split() if random_length(value) >= 8] == []


def test_only_the_part_that_looks_random_counts():
    assert random_length("correct-horse-7Xk2pQ9v") == 8


def test_rows_are_in_order():
    rows = ["abcdefghijklmnop0123456789", "aaaabbbb1111", "9876543210"]

    assert [value for value in rows if not is_in_order(value)] == []
    assert not is_in_order("k3Jx9Qp2m4xq9ztv")


def test_entropy_is_told_in_bits():
    assert entropy("abcd") == 2.0
    assert entropy("aaaa") == 0.0
