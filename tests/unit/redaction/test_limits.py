"""What one examination may take of the processor's time."""

import asyncio
import time

import pytest

from toolbus.redaction import limits as limits_of_work
from toolbus.redaction.limits import ScanLimits, UnexaminedError, WorkBudget, turn


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


async def test_the_turns_of_others_do_not_count(monkeypatch):
    now, turns = 0.0, 0

    async def others(_):
        nonlocal now
        now += 100

    async def work(count):
        nonlocal now, turns
        for _ in range(count):
            now += 0.4
            turns += 1
            await turn()

    monkeypatch.setattr(limits_of_work, "SLICE", -1.0)
    monkeypatch.setattr(asyncio, "sleep", others)

    await WorkBudget(ScanLimits(10, 1.0, lambda: now)).spend(work(2))
    with pytest.raises(UnexaminedError):
        await WorkBudget(ScanLimits(10, 1.0, lambda: now)).spend(work(5))

    assert turns == 5


def test_a_record_has_no_more_letters_than_it_may():
    budget = WorkBudget(ScanLimits(10, 1.0))
    budget.read(10)

    with pytest.raises(UnexaminedError, match="more than 10 characters"):
        budget.read(1)
