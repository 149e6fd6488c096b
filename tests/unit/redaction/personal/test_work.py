"""How much work a text makes: libraries are asked about each candidate once, and seldom."""

from collections import Counter
from random import Random

import phonenumbers
import pytest
from stdnum import iban, luhn

from toolbus.redaction.limits import ScanLimits, UnexaminedError, at_once
from toolbus.redaction.personal import identities
from toolbus.redaction.personal.detector import Detector
from toolbus.redaction.personal.matches import Appraisal

KINDS = ("email", "phone", "card", "iban", "national-id")
SIZE = 2_000
RANDOM = Random(14)


def digits(count):
    return "".join(RANDOM.choices("0123456789", k=count))


REPEATED = [
    "a@", "a@b.cd ", "1 ", "4111 ", "+49 30 901820 ", "DE89 3704 0044 0532 0130 01 ", "0 ", "+1 ",
    "(1", '"a"@b.cd', "ssn 219-09-9999 ", "(415) 555-2671 ", "steuer 1 ", "00 1 ", "1-", "1.",
]  # fmt: skip

DISTINCT = {
    "mails": lambda: f"a@b.c{digits(5)} ",
    "phones": lambda: f"+49 30 9{digits(5)} ",
    "american": lambda: f"({digits(3)}) {digits(3)}-{digits(4)} ",
    "cards": lambda: f"4111 {digits(4)} ",
    "ibans": lambda: f"DE{digits(2)} {digits(4)} {digits(4)} {digits(4)} {digits(4)} {digits(2)} ",
    "identities": lambda: f"pesel {digits(11)} cpf {digits(11)} {digits(6)}-{digits(4)} ",
    "digits": lambda: f"{digits(RANDOM.randint(1, 9))}{RANDOM.choice(' -.')}",
}


@pytest.fixture
def asked(monkeypatch):
    """Count what the libraries are asked."""
    counts = Counter()

    def counting(name, function):
        def count(*arguments, **options):
            counts[name] += 1
            return function(*arguments, **options)

        return count

    monkeypatch.setattr(phonenumbers, "parse", counting("phone", phonenumbers.parse))
    monkeypatch.setattr(luhn, "is_valid", counting("card", luhn.is_valid))
    monkeypatch.setattr(iban, "is_valid", counting("iban", iban.is_valid))
    importing = counting("identity", identities.import_module)
    monkeypatch.setattr(identities, "import_module", importing)
    return counts


def work(asked, text):
    """Return how often *text* has libraries asked."""
    asked.clear()
    appraisal = Appraisal(ScanLimits(len(text), 1.0, lambda: 0.0))
    at_once(Detector(KINDS, None, ()).find(text, appraisal))
    return asked.total()


@pytest.mark.parametrize("text", REPEATED)
def test_what_is_repeated_is_judged_once(asked, text):
    some, more = (work(asked, text * (size // len(text))) for size in (SIZE, 8 * SIZE))

    assert more <= some + 10
    assert some <= 80


@pytest.mark.parametrize("name", DISTINCT)
def test_work_grows_with_the_text(asked, name):
    entry = DISTINCT[name]
    short, long = (
        "".join([entry() for _ in range(count)]) for count in (SIZE // 20, 8 * SIZE // 20)
    )

    some, more = work(asked, short), work(asked, long)

    assert more <= 10 * some + 10
    assert more <= len(long) / 4


def test_the_clock_ends_an_examination():
    ticks = iter(range(1_000_000))
    appraisal = Appraisal(ScanLimits(100_000, 100.0, lambda: float(next(ticks))))
    text = "".join([f"+49 30 9{number:05}\n" for number in range(1_000)])

    with pytest.raises(UnexaminedError, match="longer than 100 seconds"):
        at_once(Detector(KINDS, None, ()).find(text, appraisal))


def test_answers_that_are_remembered_are_bounded():
    appraisal = Appraisal(ScanLimits(10, 1.0, lambda: 0.0))
    for number in range(100_001):
        appraisal.ask(str.isdigit, f"{number}x")

    assert len(appraisal._answers) <= 50_000
