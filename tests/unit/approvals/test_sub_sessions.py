from toolbus.approvals import sub_sessions
from toolbus.approvals.questions import Question
from toolbus.approvals.records import question_name
from toolbus.approvals.recovery import withdraw
from toolbus.messages.codec import encode
from toolbus.store.memory import MemoryStore


async def ask(store, session_id, question_id, **fields):
    question = Question(
        id=question_id,
        session_id=session_id,
        call_id="c",
        tool="pay",
        digest="d",
        prompt="?",
        asked_ns=1,
        expires_ns=2,
        **fields,
    )
    await store.swap_state(session_id, question_name(question_id), None, encode(question))


async def test_the_latest_session_of_a_call_counts():
    store = MemoryStore()

    await sub_sessions.link(store, "s", "c1", "s/c1/a")
    await sub_sessions.link(store, "s", "c1", "s/c1/b")

    assert await sub_sessions.find_linked(store, "s", ["c1", "c2"]) == {"c1": "s/c1/b"}


async def test_pending_questions_below_are_found():
    store = MemoryStore()
    await sub_sessions.link(store, "s", "c1", "s/c1")
    await sub_sessions.link(store, "s/c1", "c2", "s/c1/c2")
    await ask(store, "s", "q0", state="done")
    await ask(store, "s/c1", "q1", state="denied")
    await ask(store, "s/c1", "q2", state="denied", delivered=True)
    await ask(store, "s/c1/c2", "q3")

    assert await sub_sessions.find_pending(store, "s") == ("q1", "q3")
    assert await sub_sessions.find_below(store, "s", ["c1"]) == ["s/c1", "s/c1/c2"]
    assert await sub_sessions.find_below(store, "s", None) == ["s/c1", "s/c1/c2"]
    assert await sub_sessions.find_below(store, "s", ["other"]) == []


async def test_a_circle_ends():
    store = MemoryStore()
    await sub_sessions.link(store, "s", "c1", "t")
    await sub_sessions.link(store, "t", "c1", "s")
    await ask(store, "s", "q")

    assert set(await sub_sessions.find_pending(store, "s")) == {"q"}
    await withdraw(store, "s", None, 1)
    assert await sub_sessions.find_pending(store, "s") == ()


async def test_an_unreadable_link_is_ignored(caplog):
    store = MemoryStore()
    await store.swap_state("s", "below:c1", None, b"[]")

    assert await sub_sessions.find_linked(store, "s", ["c1"]) == {}
    assert await sub_sessions.find_below(store, "s", ["c1"]) == []
    assert "below:c1 of session 's' cannot be read" in caplog.text
