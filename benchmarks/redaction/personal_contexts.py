"""Numbers and addresses that others publish as examples, as they stand in files and messages."""

from __future__ import annotations

import hashlib
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.published import PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Iterator

SEED = "contexts 1"

CONTEXTS = {
    "alone": "{number}",
    "sentence": "It is {number}, and so on.",
    "brackets": "2026-01-15 10:11:12 INFO user 17 said ({number})",
    "list": "- {number}\n- other\n",
    "columns": "Jane Doe\t{number}\t2026-01-15\n",
    "word: number": "{word}: {number}",
    "prose": "Please use {word} {number}. Thanks!",
    "assignment": "{key}={number}",
    "json": '{{"id": 17, "{key}": "{number}"}}',
    "yaml": "user:\n  {key}: '{number}'\n",
    "xml": "<user><{key}>{number}</{key}></user>",
    "csv": "id,name,{key}\n17,Jane,{number}\n",
    "markdown": "| name | {word} |\n|---|---|\n| Jane | {number} |\n",
    "sql": "INSERT INTO users (name, {key}) VALUES ('Jane', '{number}');",
}
"""Texts around a number; the first five have no word for it."""

WORDLESS = ("alone", "sentence", "brackets", "list", "columns")

# Each with the word that its country has for it. The numbers stand in documents of the authorities,
# most of them by way of Wikipedia's "National identification number" and of python-stdnum.
_IDENTITIES = (
    ("SSN", "219-09-9999"), ("social security number", "457-55-5462"), ("ssn", "078-05-1121"),
    ("ITIN", "912-90-3456"), ("SIN", "123-456-782"), ("NINO", "AA 12 34 56 B"),
    ("national insurance number", "JG103759A"), ("NHS number", "943 476 5870"),
    ("Steuer-ID", "36 574 261 809"), ("NIR", "2 95 10 99 126 111 93"), ("DNI", "54362315K"),
    ("NIE", "X2482300W"), ("codice fiscale", "RCCMNL83S18D969H"), ("BSN", "1112.22.333"),
    ("personnummer", "880320-0016"), ("henkilötunnus", "131052-308T"), ("CPR", "211062-5629"),
    ("fødselsnummer", "151086 95088"), ("PESEL", "44051401458"), ("CPF", "390.533.447-05"),
    ("RRN", "971013-9019902"), ("rodné číslo", "710319/2745"), ("CURP", "BOXW310820HNERXN09"),
    ("RUT", "12531909-2"), ("NRIC", "770305-02-1234"), ("AHV", "756.9217.0769.85"),
    ("PPS number", "6433435F"), ("TFN", "123 456 782"), ("aadhaar", "2341 2341 2346"),
    ("身份证", "360426199101010071"),
)  # fmt: skip
_NATIONAL = ("FIXED_LINE", "MOBILE")


class Placed(NamedTuple):
    """A *number* of *kind* in a *context*; *reported* is the half that nothing is tuned with."""

    kind: str
    number: str
    context: str
    text: str
    reported: bool


def placed() -> Iterator[Placed]:
    """Give every number in every context."""
    for kind, word, number in _numbers():
        key = word.lower().replace(" ", "_").replace("-", "_")
        for context, form in CONTEXTS.items():
            text = form.format(number=number, word=word, key=key)
            digest = hashlib.sha256(f"{SEED} {number} {context}".encode()).digest()
            yield Placed(kind, number, context, text, digest[0] % 2 == 1)


def _numbers() -> Iterator[tuple[str, str, str]]:
    """Give kind, word and number."""
    words = {"card": "card number", "iban": "IBAN", "email": "e-mail"}
    for kind, word in words.items():
        for number in PUBLISHED[kind]:
            yield kind, word, number
    for word, number in _IDENTITIES:
        yield "national-id", word, number
    for number in _phones():
        yield "phone", "phone", number


def _phones() -> Iterator[str]:
    """Give Google's example numbers: abroad, and at home in the countries that are the default."""
    phones: Any = import_module("phonenumbers")
    formats = phones.PhoneNumberFormat
    for region in ("US", "GB", "DE", "FR", "JP", "BR", "IN", "ZA", "IL", "AU"):
        yield phones.format_number(phones.example_number(region), formats.INTERNATIONAL)
    for region in ("US", "GB", "DE", "FR"):
        for kind in _NATIONAL:
            number = phones.example_number_for_type(region, getattr(phones.PhoneNumberType, kind))
            yield phones.format_number(number, formats.NATIONAL)
    yield from ("415-555-2671", "415.555.2671", "+1 555-111-2222", "+1-555-111-2222")
