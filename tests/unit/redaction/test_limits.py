import pytest

from toolbus.redaction.limits import ScanLimits, UnexaminedError


def test_the_seconds_are_for_a_million_characters():
    limits = ScanLimits(chars=8_000_000, seconds=5.0)

    limits.check(4.9)
    limits.check(9.9, 2_000_000)
    for spent, chars, told in ((5.1, 0, "5"), (5.1, 900_000, "5"), (10.1, 2_000_000, "10")):
        with pytest.raises(UnexaminedError, match=f"longer than {told} seconds"):
            limits.check(spent, chars)
