"""The order of calls and answers, for any session."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.store.check.pairing import CallTurn, Pairing

kinds = st.sampled_from(["call", "answer", "interrupted", "said", "other"])
lines = st.lists(st.tuples(kinds, st.lists(st.sampled_from("123"), min_size=1, max_size=3)))


def turns_of(drawn):
    """Return a session in which each drawn message is one, or several calls of one."""
    turns = []
    for seq, (kind, calls) in enumerate(drawn, 1):
        names = calls if kind == "call" else calls[:1]
        is_mute = kind in {"said", "other"}
        turns += [CallTurn(seq, seq, kind, "" if is_mute else name) for name in names]
    return turns


def renumbered(order, turns):
    """Return what a file has that holds *order*, with all turns of each message."""
    return [
        turn._replace(seq=seq, key=seq)
        for seq, one in enumerate(order, 1)
        for turn in turns
        if turn.seq == one.seq
    ]


@pytest.mark.full
@given(drawn=lines)
def test_what_was_mended_has_no_problem_and_stays_as_it_is(drawn):
    turns = turns_of(drawn)
    pairing = Pairing(turns)
    order = pairing.mended()

    seqs = [one.seq for one in order]
    assert len(set(seqs)) == len(seqs)
    left_out = {one.seq for one in turns} - set(seqs)
    assert all(one.is_answer for one in turns if one.seq in left_out)
    assert len(left_out) == sum(max(0, len(one.answers) - 1) for one in pairing.calls)
    again = Pairing(renumbered(order, turns))
    assert list(again.problems()) == []
    assert [one.key for one in again.mended()] == list(range(1, len(order) + 1))
    assert again.unanswered == pairing.unanswered
    assert len(again.strays) == len(pairing.strays)


@given(drawn=lines)
def test_a_session_without_a_problem_is_left_alone(drawn):
    turns = turns_of(drawn)
    pairing = Pairing(turns)

    if not any(pairing.problems()):
        kept = list(dict.fromkeys(one.seq for one in turns))
        strays = {one.seq for one in pairing.strays}
        moved = [one.seq for one in pairing.mended()]
        assert [one for one in moved if one not in strays] == [
            one for one in kept if one not in strays
        ]


def test_an_id_that_is_given_again_is_another_call():
    names = [("call", "1"), ("answer", "1"), ("call", "1"), ("answer", "1"), ("said", "")]
    turns = [CallTurn(at, at, kind, call) for at, (kind, call) in enumerate(names, 1)]

    assert list(Pairing(turns).problems()) == []


def test_two_calls_of_one_id_in_one_message_have_two_answers():
    turns = [CallTurn(1, 1, "said"), *[CallTurn(2, 2, "call", "1")] * 2]
    turns += [CallTurn(3, 3, "answer", "1"), CallTurn(4, 4, "answer", "1")]

    assert list(Pairing(turns).problems()) == []
