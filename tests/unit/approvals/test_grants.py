import pytest

from toolbus.approvals.grants import find_grant, make_grant
from toolbus.approvals.questions import Question
from toolbus.store import MemoryStore

SECOND = 10**9


def asked(name):
    return Question(
        id=name,
        session_id="s",
        call_id=name,
        tool="pay",
        digest="d",
        prompt="?",
        asked_ns=0,
        expires_ns=10**12,
        answered_by="ann",
    )


@pytest.mark.parametrize(
    ("first", "second", "stands"),
    [("session", 60.0, 0), (60.0, "session", 1), (60.0, 30.0, 0), (30.0, 60.0, 1)],
)
async def test_a_shorter_grant_keeps_a_longer_grant(first, second, stands):
    store = MemoryStore()
    made = [
        await make_grant(store, asked("a"), first, 0),
        await make_grant(store, asked("b"), second, 0),
    ]

    found = await find_grant(store, asked("c"), SECOND)

    assert found == made[stands]


async def test_an_expired_grant_is_replaced():
    store = MemoryStore()
    await make_grant(store, asked("a"), 60.0, 0)

    made = await make_grant(store, asked("b"), 10.0, 61 * SECOND)

    assert await find_grant(store, asked("c"), 62 * SECOND) == made
