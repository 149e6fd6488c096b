"""The questions of a whole store, for a person."""

import pytest

from toolbus.approvals.question_lookup import (
    Damaged,
    PendingCount,
    count_pending,
    read_one,
    read_overview,
)
from toolbus.approvals.questions import PREFIX, Question
from toolbus.approvals.records import digest_of
from toolbus.messages.codec import encode
from toolbus.store import open_store
from toolbus.store.store_factory import open_reader

NOW = 4_000_000_000 * 10**9  # Far ahead: no question expires by the clock.
HOUR = 3_600 * 10**9


def question(name, **fields):
    arguments = fields.get("arguments", {"amount": 1})
    values = {
        "id": name,
        "session_id": "s",
        "call_id": f"call-{name}",
        "tool": "pay",
        "arguments": arguments,
        "digest": digest_of("pay", arguments),
        "prompt": "pay it?",
        "asked_ns": NOW,
        "expires_ns": NOW + HOUR,
    }
    return Question(**(values | fields))


@pytest.fixture
def reader(tmp_path):
    """Return a function that stores questions, and returns a reader of the store."""
    path = tmp_path / "s.db"

    async def keep(*questions, **bodies):
        async with open_store(path) as store:
            for each in questions:
                await store.swap_state(each.session_id, PREFIX + each.id, None, encode(each))
            for name, body in bodies.items():
                await store.swap_state("s", PREFIX + name, None, body)
        return open_reader(path)

    return keep


async def test_unanswered_questions_are_whole_and_the_oldest_is_first(reader):
    late, early = question("a", asked_ns=NOW - 1), question("b", asked_ns=NOW - 2)
    hosted = question("c", state="hosted")

    with await reader(late, early, hosted) as opened:
        overview = read_overview(opened, NOW)

    assert overview.waiting == (early, late, hosted)
    assert overview[1:] == ((), (), 0)


async def test_further_questions_are_counted(reader):
    questions = [question(f"q{number:02}", asked_ns=NOW + number) for number in range(45)]

    with await reader(*questions) as opened:
        overview = read_overview(opened, NOW)

    assert (overview.waiting, overview.behind) == (tuple(questions[:20]), 25)


async def test_the_questions_of_one_session_are_apart(reader):
    theirs = question("a", session_id="t")

    with await reader(question("a"), theirs) as opened:
        assert read_overview(opened, NOW, opened.session("t")).waiting == (theirs,)


async def test_the_latest_closed_questions_come_without_their_arguments(reader):
    closed = [
        question("a", state="denied", answered_by="ann", answered_ns=NOW - 3),
        question("b", state="done", answered_by="ann", answered_ns=NOW - 9, ended_ns=NOW - 1),
        question("c", expires_ns=NOW - 2),
        # The same time twice, in two sessions: questions themselves have no order.
        question("a", session_id="t", state="denied", answered_by="ann", answered_ns=NOW - 3),
    ]

    with await reader(*closed) as opened:
        overview = read_overview(opened, NOW)

    assert [(each.id, each.session_id, each.state) for each in overview.closed] == [
        ("b", "s", "done"),
        ("c", "s", "expired"),
        ("a", "t", "denied"),
        ("a", "s", "denied"),
    ]
    assert all(not each.arguments for each in overview.closed)


async def test_only_the_latest_closed_questions_are_listed(reader):
    facts = {"state": "denied", "answered_by": "ann"}
    closed = [question(f"q{n:02}", answered_ns=NOW - n, **facts) for n in range(51)]

    with await reader(*closed) as opened:
        names = [each.id for each in read_overview(opened, NOW).closed]

    assert names == [f"q{n:02}" for n in range(50)]


async def test_a_damaged_question_is_named_and_does_not_count(reader):
    with await reader(question("a"), b=b'{"id": 1}', c=encode(question("other"))) as opened:
        overview = read_overview(opened, NOW)
        count = count_pending(opened, NOW)

    assert [each.id for each in overview.waiting] == ["a"]
    assert [type(each) for each in overview.damaged] == [Damaged, Damaged]
    assert "'question:b' of session 's' cannot be read" in overview.damaged[0].problem
    assert "says that it is 'other' of session 's'" in overview.damaged[1].problem
    assert count == 2  # Only whole records are checked for their place.


async def test_only_pending_questions_count(reader):
    kinds = [question("a"), question("b", state="hosted"), question("c", expires_ns=NOW - 1)]
    kinds += [question("d", state="approved"), question("e", arguments={"state": "done"})]

    with await reader(*kinds) as opened:
        assert count_pending(opened, NOW) == 2


async def test_the_current_version_of_a_question_is_read(reader):
    changed = question("a", state="denied", answered_by="ann")

    with await reader(changed) as opened:
        assert read_one(opened, question("a"), NOW) == changed
        assert read_one(opened, question("b"), NOW) is None


async def test_the_number_of_pending_questions_is_kept_for_a_second(reader, tmp_path):
    await reader(question("a"))
    count = PendingCount(lambda: open_reader(tmp_path / "s.db"))

    first = count()
    await reader(question("b"))
    within = count()
    count.forget()

    assert (first, within, count()) == (1, 1, 2)
