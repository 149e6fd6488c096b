"""The records of questions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.approvals.questions import TRANSITIONS, Question
from toolbus.approvals.records import (
    decode_question,
    digest_of,
    find_question,
    question_name,
    questions_of,
    swap_question,
)
from toolbus.approvals.recovery import with_effective_state
from toolbus.approvals.steps import transition
from toolbus.errors import DecodeError
from toolbus.messages.codec import encode
from toolbus.store import MemoryStore

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner),
    max_leaves=8,
)


def question(**fields):
    arguments = {"a": 1}
    known = {
        "id": "q",
        "session_id": "s",
        "call_id": "c",
        "tool": "pay",
        "arguments": arguments,
        "digest": digest_of("pay", arguments),
        "prompt": "pay?",
        "asked_ns": 1,
        "expires_ns": 100,
    }
    return Question(**(known | fields))


async def put(store, *questions):
    for each in questions:
        name = question_name(each.id)
        assert await store.swap_state(each.session_id, name, None, encode(each))


@given(st.dictionaries(st.text("abc"), JSON, max_size=3))
def test_a_question_survives_a_round_trip(arguments):
    kept = question(arguments=arguments, digest=digest_of("pay", arguments))

    again = decode_question(encode(kept))

    assert encode(again) == encode(kept)
    assert digest_of(again.tool, again.arguments) == kept.digest


def test_a_digest_ignores_the_order_of_keys_alone():
    first = digest_of("t", {"a": 1, "b": {"c": 2, "d": 3}})

    assert digest_of("t", {"b": {"d": 3, "c": 2}, "a": 1}) == first
    others = [("u", {"a": 1}), ("t", {"a": 1}), ("t", {"a": 1.0}), ("t", {"a": "1"}), ("t", {})]
    assert len({first, *[digest_of(*other) for other in others]}) == 6


async def test_a_question_is_found_by_its_exact_id():
    store = MemoryStore()
    await put(store, question(id="q1"), question(id="q12"), question(id="q", session_id="t"))

    assert (await find_question(store, "q1")).id == "q1"
    assert (await find_question(store, "q")).session_id == "t"
    assert await find_question(store, "q", "s") is None
    assert await find_question(store, "q13") is None
    assert await find_question(store, "") is None


async def test_questions_of_a_session_are_sorted():
    store = MemoryStore()
    await put(store, *[question(id=name, asked_ns=moment) for name, moment in [("b", 1), ("a", 2)]])
    await store.swap_state("s", "asked:k", None, b'{"id":"a"}')

    assert [each.id for each in await questions_of(store, "s")] == ["b", "a"]
    assert await questions_of(store, "nowhere") == ()


async def test_a_changed_question_is_not_swapped():
    store, first = MemoryStore(), question()
    await put(store, first)

    taken = await transition(store, first, "approve", answered_by="ann")

    assert taken.state == "approved"
    assert await transition(store, first, "deny") is None
    assert not await swap_question(store, first, question(prompt="other"))
    assert await find_question(store, "q") == taken


@pytest.mark.parametrize("state", sorted({*TRANSITIONS, "denied", "expired", "withdrawn", "done"}))
async def test_only_transitions_of_the_table_exist(state):
    signals = {signal for steps in TRANSITIONS.values() for signal in steps}

    for signal in signals:
        store, kept = MemoryStore(), question(state=state)
        await put(store, kept)
        stepped = await transition(store, kept, signal)
        due = TRANSITIONS.get(state, {}).get(signal)
        assert (stepped.state if stepped else None) == due
        assert (await find_question(store, "q")).state == (due or state)


def test_a_reader_sees_the_effective_state():
    taken = question(state="taken")

    assert with_effective_state(question(), 99).state == "pending"
    assert with_effective_state(question(), 100).state == "expired"
    assert with_effective_state(question(state="approved"), 100).state == "expired"
    assert with_effective_state(question(state="denied"), 100).state == "denied"
    assert with_effective_state(question(state="hosted"), 99).state == "hosted"
    assert with_effective_state(question(state="hosted"), 100).state == "unheard"
    assert with_effective_state(taken, 100).state == "taken"
    assert with_effective_state(taken, 100, taker_is_gone=True).state == "unknown"


@pytest.mark.parametrize("body", [b"null", b"{}", b'{"id":', b'{"state":"blessed"}'])
async def test_an_unreadable_question_is_left_out(body, caplog):
    store = MemoryStore()
    await put(store, question(id="a"), question(id="c"))
    if body.startswith(b'{"s'):
        body = encode(question(id="b")).replace(b"{", b'{"state":"blessed",', 1)
    await store.swap_state("s", question_name("b"), None, body)

    assert [each.id for each in await questions_of(store, "s")] == ["a", "c"]
    assert "question:b of session 's' cannot be read" in caplog.text
    with pytest.raises(DecodeError):
        await find_question(store, "b", "s")
    with pytest.raises(DecodeError):
        await find_question(store, "b")


async def test_a_question_counts_under_its_own_name():
    store = MemoryStore()
    moved = encode(question(id="a", state="approved"))
    await store.swap_state("s", question_name("b"), None, moved)
    await store.swap_state("t", question_name("a"), None, moved)

    assert await questions_of(store, "s") == await questions_of(store, "t") == ()
    for question_id, session_id in (("b", "s"), ("a", "t"), ("b", None), ("a", None)):
        with pytest.raises(DecodeError, match="the record is question 'a' of session 's'"):
            await find_question(store, question_id, session_id)
