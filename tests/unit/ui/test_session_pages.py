"""The parts of a session on its page."""

from hypothesis import given
from hypothesis import strategies as st

from toolbus.history.entry_texts import bars
from toolbus.history.timeline import CallEntry, MessageEntry, Timeline, Turn
from toolbus.store.store_reader import SessionRow
from toolbus.ui.filters import address
from toolbus.ui.session_pages import shorten

SESSION = SessionRow(1, "s", 9, 9, 0, 0, has_originals=False)


def entry(seq, calls=0):
    call = CallEntry(id="c", tool="t", requested=None, executed=None, status="ok")
    return MessageEntry(seq=seq, id="m", message=None, calls=(call,) * calls)


def timeline(seqs, after=0):
    turns = [Turn(run_id="", number=0, messages=(entry(seq),)) for seq in seqs]
    end = max(seqs, default=after)
    return Timeline(session=SESSION, turns=tuple(turns), after=after, end=end, has_more=False)


def seqs_of(part):
    return [each.seq for turn in part.turns for each in turn.messages]


def test_a_small_part_stays_whole():
    whole = timeline([1, 2, 3])

    assert shorten(whole) is whole


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(1, 200))
def test_shortened_parts_go_on_where_they_end(steps, most_nodes):
    # Entries of one number are records before its message.
    seqs = [1 + sum(steps[:place]) for place in range(len(steps))]
    shown, after = [], 0
    while True:
        rest = [seq for seq in seqs if seq > after]
        part = shorten(timeline(rest, after), most_nodes)
        shown += seqs_of(part)
        if not part.has_more:
            break
        assert part.end > after
        after = part.end

    assert shown == seqs


def test_a_turn_can_be_cut():
    messages = tuple([entry(seq) for seq in range(1, 100)])
    turn = Turn(run_id="r", number=7, messages=messages)
    whole = Timeline(session=SESSION, turns=(turn,), after=0, end=99, has_more=False)
    part = shorten(whole, 200)

    assert part.turns[0].number == 7
    assert seqs_of(part) == list(range(1, part.end + 1))
    assert part.has_more


def test_one_large_message_is_a_part():
    large = Turn(run_id="", number=0, messages=(entry(1, calls=500), entry(2)))
    whole = Timeline(session=SESSION, turns=(large,), after=0, end=2, has_more=False)
    part = shorten(whole, 300)

    assert (seqs_of(part), part.end) == ([1], 1)


def test_addresses_quote_everything():
    assert (
        address("calls", "a/b c", "../%?#&\u202e") == "/calls/a%2Fb%20c/..%2F%25%3F%23%26%E2%80%AE"
    )
    assert address("sessions", "s", after=3) == "/sessions/s?after=3"


def test_bars_share_the_time_of_their_turn():
    def call(start, duration):
        facts = {"requested": None, "executed": None, "status": "ok"}
        return CallEntry(id="c", tool="t", started_ns=start, duration_ns=duration, **facts)

    calls = (call(100, 50), call(150, 50), call(0, 10))
    turn = Turn(
        run_id="", number=0, messages=(MessageEntry(seq=1, id="m", message=None, calls=calls),)
    )

    assert bars(turn) == {(1, 0): (0, 50), (1, 1): (50, 50)}
