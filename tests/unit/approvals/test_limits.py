"""Counts of questions of several processes whose clocks differ."""

import pytest

from toolbus.approvals.limits import HOUR_NS, QuestionLimits, admit
from toolbus.approvals.questions import Question
from toolbus.store import MemoryStore

NOW = 10**18


def question(number, asked_ns):
    return Question(
        id=f"q{number}",
        session_id="s",
        call_id=f"c{number}",
        tool="shell",
        digest=f"{number:064}",
        prompt="may this go on?",
        asked_ns=asked_ns,
        expires_ns=asked_ns + HOUR_NS,
    )


@pytest.mark.parametrize("limits", [QuestionLimits(open=2), QuestionLimits(None, hourly=2)])
@pytest.mark.parametrize("behind_ns", [1, 20 * 10**9])
async def test_an_earlier_clock_counts_too(limits, behind_ns):
    store = MemoryStore()
    told = [
        await admit(store, question(number, NOW - behind_ns * number), limits)
        for number in range(3)
    ]

    assert [each is None for each in told] == [True, True, False]


async def test_a_clock_set_back_begins_another_hour():
    store, limits = MemoryStore(), QuestionLimits(None, hourly=1)
    later, back = NOW, NOW - 2 * HOUR_NS
    told = [
        await admit(store, question(number, now), limits)
        for number, now in enumerate([later, later, back, back])
    ]

    assert [each is None for each in told] == [True, False, True, False]
