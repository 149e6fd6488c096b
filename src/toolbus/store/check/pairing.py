"""Whether each call of a session has one answer next to it, and the order in which it has."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from itertools import chain, pairwise
from typing import TYPE_CHECKING, NamedTuple

from toolbus.messages.records import AssistantMessage, ToolMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolbus.messages.records import Message
    from toolbus.store.reading import MessageRow


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


class Pairing:
    """The calls and answers of one session, found in its *turns*, which are in order.

    *strays* are answers to calls that no message asks for.
    """

    def __init__(self, turns: Iterable[CallTurn]) -> None:
        self.turns = list(turns)
        self.calls: list[PairedCall] = []
        self.strays: list[CallTurn] = []
        waiting: defaultdict[str, list[PairedCall]] = defaultdict(list)
        answered: dict[str, PairedCall] = {}
        for turn in self.turns:
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
        return any(turn.kind == "said" for turn in self.turns)

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

    def notes(self) -> Iterator[str]:
        """Say which answers no message asks for; the question may have been lost long ago."""
        for stray in self.strays:
            yield f"message {stray.seq} answers call {stray.call!r}, which no message asks for"

    def _next_others(self) -> dict[int, int]:
        """Return by the number of a message that of the next one that answers nothing."""
        if not self.is_conversation:
            return {}
        numbers = dict.fromkeys([turn.seq for turn in self.turns if not turn.is_answer])
        return dict(pairwise(numbers))

    @cached_property
    def left_out(self) -> set[int]:
        """The keys of answers to calls that keep another one."""
        answers = [(answer, call) for call in self.calls for answer in call.answers]
        return {answer.key for answer, call in answers if answer is not call.best}

    @cached_property
    def _asking(self) -> dict[int, int]:
        """The key of the message that asked, by that of the answer that belongs behind it."""
        answered = [call for call in self.calls if call.answers and self.is_conversation]
        return {call.best.key: call.turn.key for call in answered}

    def position(self, key: int) -> tuple[int, int]:
        """Return what the keys of messages are sorted by, so that answers follow their calls."""
        return self._asking.get(key, key), key

    def mended(self) -> list[CallTurn]:
        """Return one turn for each message that stays, in order, with a single answer to a call."""
        turns = {turn.key: turn for turn in self.turns if turn.key not in self.left_out}
        return sorted(turns.values(), key=lambda turn: self.position(turn.key))

    def repairs(self) -> Iterator[str]:
        """Say which messages are left out of the mended order and which have moved."""
        for call in self.calls:
            for answer in call.answers:
                if answer.key in self.left_out:
                    best = f"call {call.turn.call!r} keeps the answer of message {call.best.seq}"
                    yield f"message {answer.seq} was left out: {best}"
        order = self.mended()
        old_numbers = sorted([turn.seq for turn in order])
        for turn, old_number in zip(order, old_numbers, strict=True):
            if turn.seq > old_number and turn.is_answer:
                yield f"message {turn.seq} was moved next to its call {turn.call!r}"


def pair_calls(rows: Iterable[MessageRow]) -> Pairing:
    """Return how the calls of the messages in *rows* are paired."""
    turns = [turns_of(row.seq, row.key, row.message) for row in rows if row.message]
    return Pairing(chain.from_iterable(turns))


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
