"""Whether each call of a session has one answer next to it, and the order in which it has."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from toolbus.messages.records import AssistantMessage, ToolMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolbus.messages.records import Message
    from toolbus.store.sqlite.files import Connection

TURNS = """CREATE TEMP TABLE turns (
    session INTEGER, seq INTEGER, key INTEGER, kind TEXT, call TEXT, place INTEGER,
    PRIMARY KEY (session, seq, place)
) WITHOUT ROWID"""
"""What each message is in the order of calls: it has a row for each call that it asks for."""


class CallTurn(NamedTuple):
    """A message in the order of calls, or one of the calls that it asks for.

    *kind* is "call", "answer", "interrupted" (an answer that says only that there is none), "said"
    by a user or a system, or "other".
    """

    seq: int
    key: int
    kind: str
    call: str = ""

    @property
    def is_answer(self) -> bool:
        """Whether it answers a call."""
        return self.kind in {"answer", "interrupted"}


class PairedCall(NamedTuple):
    """A call and its answers, in order."""

    turn: CallTurn
    answers: list[CallTurn]

    @property
    def best(self) -> CallTurn:
        """The first true answer, else the first."""
        true = (answer for answer in self.answers if answer.kind == "answer")
        return next(true, self.answers[0])

    @property
    def others(self) -> list[CallTurn]:
        """The answers that are not the best."""
        best = self.best if self.answers else None
        return [answer for answer in self.answers if answer is not best]


class Pairing:
    """The calls and answers of one session, found in its *turns*, which are in order.

    *strays* are answers to calls that no message asks for.
    """

    def __init__(self, turns: Iterable[CallTurn]) -> None:
        self._turns = list(turns)
        self.calls: list[PairedCall] = []
        self.strays: list[CallTurn] = []
        waiting: defaultdict[str, list[PairedCall]] = defaultdict(list)
        answered: dict[str, PairedCall] = {}
        for turn in self._turns:
            if turn.kind == "call":
                self.calls.append(call := PairedCall(turn, []))
                waiting[turn.call].append(call)
            elif turn.is_answer:
                self._answer(turn, waiting[turn.call], answered)

    def _answer(
        self, turn: CallTurn, waiting: list[PairedCall], answered: dict[str, PairedCall]
    ) -> None:
        """Take *turn* for the answer to the first call that waits, else to the latest answered."""
        call = waiting.pop(0) if waiting else answered.get(turn.call)
        if call is None:
            self.strays.append(turn)
        else:
            call.answers.append(turn)
            answered[turn.call] = call

    @property
    def unanswered(self) -> int:
        """The number of calls without an answer."""
        return sum([not call.answers for call in self.calls])

    @property
    def is_conversation(self) -> bool:
        """Whether a user speaks; if none does, as in what a proxy records, calls may overlap."""
        return any(turn.kind == "said" for turn in self._turns)

    def problems(self) -> Iterator[str]:
        """Say which calls have several answers, and which are apart from theirs."""
        after = self._next_others()
        for turn, answers in self.calls:
            if len(answers) > 1:
                places = " and ".join([str(answer.seq) for answer in answers])
                yield f"call {turn.call!r} is answered {len(answers)} times, by messages {places}"
            other = after.get(turn.seq)
            if answers and other is not None and other < answers[0].seq:
                yield f"message {other} stands between call {turn.call!r} and its answer"

    def _next_others(self) -> dict[int, int]:
        """Return by the number of a message that of the next one that answers nothing."""
        if not self.is_conversation:
            return {}
        numbers = dict.fromkeys([turn.seq for turn in self._turns if not turn.is_answer])
        return dict(pairwise(numbers))

    def mended(self) -> list[CallTurn]:
        """Return one turn for each message that stays, in order, with a single answer to a call."""
        best = [(call.best, call.turn.seq) for call in self.calls if call.answers]
        beside: defaultdict[int, list[CallTurn]] = defaultdict(list)
        if self.is_conversation:
            for answer, asking_seq in sorted(best):
                beside[asking_seq].append(answer)
        moved = {answer.seq for answers in beside.values() for answer in answers}
        dropped = {answer.seq for call in self.calls for answer in call.others}
        order: list[CallTurn] = []
        # Of a message that asks for several calls there are as many turns.
        for turn in {turn.seq: turn for turn in self._turns}.values():
            if turn.seq not in moved | dropped:
                order.append(turn)
            order += beside[turn.seq]
        return order


def turns_of(seq: int, key: int, message: Message) -> list[CallTurn]:
    """Return what *message* is in the order of calls."""
    match message:
        case AssistantMessage(tool_calls=calls) if calls:
            return [CallTurn(seq, key, "call", call.id) for call in calls]
        case ToolMessage(tool_call_id=call_id, tool_response=response):
            open_still = response is not None and response.error_type == "interrupted"
            return [CallTurn(seq, key, "interrupted" if open_still else "answer", call_id)]
        case AssistantMessage():
            return [CallTurn(seq, key, "other")]
    return [CallTurn(seq, key, "said")]


def read_pairing(connection: Connection, session: int) -> Pairing:
    """Return how the calls of a session are paired, by its `TURNS`."""
    query = "SELECT seq, key, kind, call FROM turns WHERE session = ? ORDER BY seq, place"
    return Pairing([CallTurn(*row) for row in connection.execute(query, (session,))])
