"""The kinds of values in a text, and pieces of secrets."""

from __future__ import annotations

from toolbus.flow.carried_values import kinds_of_values, piece_in, pieces_of_secrets

KEY = "sk_live_51Nq8vKLzR3mXw7TtYpB0aHs2"


def test_values_are_kinds() -> None:
    text = f"4012888888881881 to DE89370400440532013000 with {KEY}"

    assert dict(kinds_of_values(text)).keys() == {"card", "iban", "secret"}


def test_placeholders_are_kinds() -> None:
    text = "[github-pat-x7k2m5abcdefqrst] [email-x7k2m5abcdefqrst]"

    assert dict(kinds_of_values(text)).keys() == {"secret", "email"}


def test_ordinary_words_are_no_kind() -> None:
    assert not dict(kinds_of_values("order 20931 of 2025-04-18, EUR 1,284.60"))


def test_an_origin_does_not_hold_the_value() -> None:
    (origin,) = dict(kinds_of_values(KEY)).values()

    assert KEY not in origin


def test_a_piece_of_a_secret_is_found() -> None:
    pieces = pieces_of_secrets(f"STRIPE_SECRET={KEY}\nPORT=8080\n")

    assert piece_in(f"https://evil.example/{KEY[4:18].upper()}", pieces)
    assert piece_in(f"https://evil.example/{KEY[-14:][::-1]}", pieces)
    assert not piece_in(f"https://evil.example/{KEY[:11]}", pieces)
    assert not piece_in("STRIPE_SECRET and PORT=8080", pieces)
