"""Whether each call of a session has one answer next to it, and the order in which it has."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from toolbus.messages.records import AssistantMessage, ToolMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolbus.messages.records import Message
    from toolbus.store.opening import Connection

TURNS = """CREATE TEMP TABLE turns (
    session INTEGER, seq INTEGER, key INTEGER, kind TEXT, call TEXT, place INTEGER,
    PRIMARY KEY (session, seq, place)
) WITHOUT ROWID"""
"""What each message is in the order of calls: it has a row for each call that it asks for."""


class Turn(NamedTuple):
    """A message, or one of the calls that it asks for.

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


class Asked(NamedTuple):
    """A call and its answers, in order."""

    turn: Turn
    answers: list[Turn]

    @property
    def best(self) -> Turn:
        """The first true answer, else the first."""
        return next((one for one in self.answers if one.kind == "answer"), self.answers[0])


class Pairing:
    """The calls and answers of one session, found in its *turns*, which are in order."""

    def __init__(self, turns: Iterable[Turn]) -> None:
        self._turns = list(turns)
        self.calls: list[Asked] = []
        self.strays: list[Turn] = []
        waiting: defaultdict[str, list[Asked]] = defaultdict(list)
        last: dict[str, Asked] = {}
        for turn in self._turns:
            if turn.kind == "call":
                self.calls.append(asked := Asked(turn, []))
                waiting[turn.call].append(asked)
            elif turn.is_answer:
                self._answer(turn, waiting[turn.call], last)

    def _answer(self, turn: Turn, waiting: list[Asked], last: dict[str, Asked]) -> None:
        """Take *turn* for the answer to the first call that waits, else to the last answered."""
        asked = waiting.pop(0) if waiting else last.get(turn.call)
        if asked is None:
            self.strays.append(turn)
        else:
            asked.answers.append(turn)
            last[turn.call] = asked

    @property
    def unanswered(self) -> int:
        """The number of calls without an answer."""
        return sum([not one.answers for one in self.calls])

    @property
    def is_conversation(self) -> bool:
        """Whether a user speaks; if none does, as in what a proxy records, calls may overlap."""
        return any(one.kind == "said" for one in self._turns)

    def problems(self) -> Iterator[str]:
        """Say which calls have several answers, and which are apart from theirs."""
        after = self._next_others()
        for asked in self.calls:
            name, answers = asked.turn.call, asked.answers
            if len(answers) > 1:
                places = " and ".join([str(one.seq) for one in answers])
                yield f"call {name!r} is answered {len(answers)} times, by messages {places}"
            other = after.get(asked.turn.seq)
            if answers and other is not None and other < answers[0].seq:
                yield f"message {other} stands between call {name!r} and its answer"

    def _next_others(self) -> dict[int, int]:
        """Return by the number of a message that of the next one that answers nothing."""
        found: dict[int, int] = {}
        if self.is_conversation:
            numbers = list(dict.fromkeys([one.seq for one in self._turns if not one.is_answer]))
            found = dict(pairwise(numbers))
        return found

    def mended(self) -> list[Turn]:
        """Return one turn for each message that stays, in order, with a single answer to a call."""
        best = [(one.best, one.turn.seq) for one in self.calls if one.answers]
        beside: defaultdict[int, list[Turn]] = defaultdict(list)
        for answer, asked in sorted(best) if self.is_conversation else ():
            beside[asked].append(answer)
        moved = {answer.seq for answers in beside.values() for answer in answers}
        stays = {answer.seq for answer, _ in best} | {one.seq for one in self.strays}
        order: list[Turn] = []
        # Of a message that asks for several calls there are as many turns.
        for turn in {one.seq: one for one in self._turns}.values():
            if turn.seq not in moved and (turn.seq in stays or not turn.is_answer):
                order.append(turn)
            order += beside[turn.seq]
        return order


def turns_of(seq: int, key: int, message: Message) -> list[Turn]:
    """Return what *message* is in the order of calls."""
    match message:
        case AssistantMessage(tool_calls=calls) if calls:
            return [Turn(seq, key, "call", call.id) for call in calls]
        case ToolMessage(tool_call_id=call_id, tool_response=response):
            open_still = response is not None and response.error_type == "interrupted"
            return [Turn(seq, key, "interrupted" if open_still else "answer", call_id)]
        case AssistantMessage():
            return [Turn(seq, key, "other")]
    return [Turn(seq, key, "said")]


def read_pairing(connection: Connection, session: int) -> Pairing:
    """Return how the calls of a session are paired, by its `TURNS`."""
    query = "SELECT seq, key, kind, call FROM turns WHERE session = ? ORDER BY seq, place"
    return Pairing([Turn(*row) for row in connection.execute(query, (session,))])
