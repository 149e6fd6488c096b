"""The calls of a session with their answers, and the repair of calls with none or several."""

from __future__ import annotations

from collections import defaultdict, deque
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from toolbus.messages.records import AssistantMessage, ToolMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.store.store_reader import MessageRow


class Answer(NamedTuple):
    """The message number *seq* as an answer; not *true* if it only marks an interrupted call."""

    seq: int
    key: int
    true: bool


class PairedCall(NamedTuple):
    """A call, the message that requests it, and its answers in order."""

    id: str
    seq: int
    key: int
    answers: list[Answer]

    @property
    def best(self) -> Answer:
        """The first true answer, else the first."""
        return next((answer for answer in self.answers if answer.true), self.answers[0])


class CallPairs:
    """The calls and answers of one session, whose messages are added in order.

    *strays* are the numbers of answers without a requesting message, with the calls' ids.
    *is_conversation* is whether there is a user's message; without one, as in a proxy's session,
    calls may overlap.
    """

    def __init__(self) -> None:
        self.calls: list[PairedCall] = []
        self.strays: list[tuple[int, str]] = []
        self.is_conversation = False
        self._others: list[int] = []
        self._waiting: defaultdict[str, deque[PairedCall]] = defaultdict(deque)
        self._answered: dict[str, PairedCall] = {}

    def add(self, row: MessageRow) -> None:
        """Add the next message, if it is readable."""
        match row.message:
            case None:
                return
            case ToolMessage(tool_call_id=call_id, tool_response=response):
                true = response is None or response.error_type != "interrupted"
                self._answer(call_id, Answer(row.seq, row.key, true))
                return
            case AssistantMessage(tool_calls=calls):
                for call in calls:
                    self.calls.append(paired := PairedCall(call.id, row.seq, row.key, []))
                    self._waiting[call.id].append(paired)
            case _:
                self.is_conversation = True
        self._others.append(row.seq)

    def _answer(self, call_id: str, answer: Answer) -> None:
        """Match *answer* to the first waiting call, else to the latest answered one."""
        waiting = self._waiting[call_id]
        call = waiting.popleft() if waiting else self._answered.get(call_id)
        if call is None:
            self.strays.append((answer.seq, call_id))
        else:
            call.answers.append(answer)
            self._answered[call_id] = call

    @property
    def unanswered(self) -> int:
        """The number of calls without an answer."""
        return sum([not call.answers for call in self.calls])

    @cached_property
    def _next_others(self) -> dict[int, int]:
        """The number of the next message of any other kind, which must follow a call's answer."""
        return dict(pairwise(self._others)) if self.is_conversation else {}

    def _divider(self, call: PairedCall, answer: Answer) -> int | None:
        """Return the number of the first message between *call* and *answer*, None if none."""
        other = self._next_others.get(call.seq)
        return None if other is None or other > answer.seq else other

    def problems(self) -> Iterator[str]:
        """Yield the calls with several answers, and the calls separated from their answers."""
        for call in self.calls:
            if len(call.answers) > 1:
                places = " and ".join([str(answer.seq) for answer in call.answers])
                times = f"{len(call.answers)} times, by messages {places}"
                yield f"call {call.id!r} is answered {times}"
            if call.answers and (other := self._divider(call, call.answers[0])):
                yield f"message {other} is between call {call.id!r} and its answer"

    def notes(self) -> Iterator[str]:
        """Yield the answers without a request, which may have been lost long ago."""
        for seq, call_id in self.strays:
            yield f"message {seq} answers call {call_id!r}, which no message requests"

    @cached_property
    def left_out(self) -> dict[int, PairedCall]:
        """The keys of messages with surplus answers, each with its call."""
        answers = [(answer, call) for call in self.calls for answer in call.answers]
        return {answer.key: call for answer, call in answers if answer is not call.best}

    @cached_property
    def _asking(self) -> dict[int, int]:
        """The keys of the best answers, each with the key of the requesting message."""
        answered = [call for call in self.calls if call.answers and self.is_conversation]
        return {call.best.key: call.key for call in answered}

    def position(self, key: int) -> tuple[int, int]:
        """Return the sort key of the message *key* that places answers right after their calls."""
        return self._asking.get(key, key), key

    def repairs(self) -> Iterator[str]:
        """Yield the messages that the repaired order leaves out, and those that it moves."""
        for call in self.calls:
            for answer in call.answers:
                if answer.key in self.left_out:
                    best = f"call {call.id!r} keeps the answer of message {call.best.seq}"
                    yield f"message {answer.seq} was left out: {best}"
        for call in self.calls:
            if call.answers and self._divider(call, call.best):
                yield f"message {call.best.seq} was moved next to its call {call.id!r}"
