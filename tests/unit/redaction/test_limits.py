"""What one examination may take of the processor's time."""

import time

import pytest

from toolbus.redaction.limits import ScanLimits, UnexaminedError


def spent(work):
    limits = ScanLimits(chars=1, seconds=0.02)
    since = limits.clock()
    work()
    limits.check(limits.clock() - since)


def spin():
    until = time.thread_time() + 0.03
    while time.thread_time() < until:
        pass


def test_work_counts():
    with pytest.raises(UnexaminedError, match=r"longer than 0\.02 seconds"):
        spent(spin)


def test_others_work_does_not_count():
    spent(lambda: time.sleep(0.03))


def test_the_seconds_are_for_a_million_characters():
    limits = ScanLimits(chars=8_000_000, seconds=5.0)

    limits.check(4.9)
    limits.check(9.9, 2_000_000)
    for spent, chars, told in ((5.1, 0, "5"), (5.1, 900_000, "5"), (10.1, 2_000_000, "10")):
        with pytest.raises(UnexaminedError, match=f"longer than {told} seconds"):
            limits.check(spent, chars)
