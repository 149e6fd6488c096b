"""Summaries of sessions, counted on as messages and records arrive."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from toolbus.events.catalogue import TOOL_CALL_BEFORE
from toolbus.history.figures import bounded_name
from toolbus.history.message_history import status_of
from toolbus.messages.codec import encode
from toolbus.messages.records import AssistantMessage, ToolMessage, UserMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.history.figures import Figures
    from toolbus.messages.records import Message
    from toolbus.store.store_reader import SessionRow, StoreReader

SLICE = 200
"""The most messages that are read at once."""

_TOOLS, _AGENTS = 40, 8
"""The most tools and agents of a summary."""

_PROMPT, _NAME = 200, 80
"""The most characters of a prompt, and of the name of an agent."""

_WAITING = 100
"""The most verdicts that wait for the message of their call."""

_NO_VERDICTS: Mapping[str, str] = {}


class SessionSummary(Struct, frozen=True, kw_only=True):
    """The counts of one session, as far as it was read.

    *agents* are the speakers, a host before its sub-agents; *prompt* is the beginning of the first
    user message; *calls* are by tool and status. *denied* counts calls, messages and requests,
    *asked* and *changed* count dispatches. *cost* is the sum that providers report, None without a
    report. *is_done*: the latest message is a final answer. *damaged* counts rows.

    *messages*, *records* and *place* are the position: numbers of the latest message and batch of
    records. *verdicts* are by id of a call whose message is expected.
    """

    agents: tuple[str, ...] = ()
    prompt: str = ""
    calls: Mapping[str, Mapping[str, int]] = {}
    denied: int = 0
    asked: int = 0
    changed: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    is_done: bool = False
    damaged: int = 0
    messages: int = 0
    records: int = 0
    place: int = 0
    verdicts: Mapping[str, str] = _NO_VERDICTS

    @property
    def state(self) -> Literal["open", "done"]:
        """Whether the session has a final answer; a waiting question is another state."""
        return "done" if self.is_done else "open"

    @property
    def call_count(self) -> int:
        """The number of answered calls."""
        return sum([sum(statuses.values()) for statuses in self.calls.values()])


def read_on(
    reader: StoreReader,
    session: SessionRow,
    summary: SessionSummary,
    figures: Figures,
    placeholders: Callable[[str], Iterable[tuple[str, str]]],
) -> tuple[SessionSummary, bool]:
    """Return *summary* with the next messages of *session*, and whether it may have further ones.

    *figures* count them too. *placeholders* returns those in a text, each after its kind.
    """
    draft = _Draft(summary)
    for row in islice(reader.messages(session.key, summary.messages), SLICE):
        draft.seq = row.seq
        if row.message is None:
            draft.counts["damaged"] += 1
        else:
            draft.add_message(row.message)
            figures.add_placeholders(placeholders(encode(row.message).decode()))
    is_partial = draft.seq - summary.messages >= SLICE
    # Records without a message are at the place of the next message, and increase until it exists.
    first, end = max(0, summary.place - 1), draft.seq if is_partial else None
    for batch in reader.record_batches(session.key, first, end):
        if batch.seq > summary.records:
            draft.place, draft.record_seq = batch.message_seq, batch.seq
            draft.counts["damaged"] += bool(batch.damage)
            for record in batch.records:
                draft.add_record(record)
                for entry in record.entries:
                    figures.add_entry(entry)
    calls = draft.answered_calls()
    counted = draft.finish(calls)
    figures.add_calls(calls)
    figures.add_agents(counted.agents[len(summary.agents) :])
    figures.damaged += draft.counts["damaged"]
    return counted, is_partial


class _Draft:
    """The counts of the next messages and records after the summary *before*."""

    def __init__(self, before: SessionSummary) -> None:
        self._before, self.counts = before, Counter[str]()
        self.seq, self.place, self.record_seq = before.messages, before.place, before.records
        self._agents, self._prompt = dict.fromkeys(before.agents), before.prompt
        self._cost, self._is_done = before.cost, before.is_done
        self._answers: list[tuple[str, str, str]] = []
        self._verdicts = dict(before.verdicts)

    def add_message(self, message: Message) -> None:
        """Count *message*; the status of its call is known after the records."""
        self._is_done = isinstance(message, AssistantMessage) and not message.tool_calls
        match message:
            case UserMessage() if not self._prompt:
                self._prompt = " ".join(message.text[: 5 * _PROMPT].split())[:_PROMPT]
            case AssistantMessage(usage=usage):
                self.counts["tokens_in"] += _number(usage.get("input_tokens"))
                self.counts["tokens_out"] += _number(usage.get("output_tokens"))
                if isinstance(cost := usage.get("cost"), int | float):
                    self._cost = (self._cost or 0.0) + cost
            case ToolMessage(tool_call_id=call_id, tool_name=tool):
                self._answers.append((call_id, sys.intern(tool), status_of(message)))

    def add_record(self, record: DispatchRecord) -> None:
        """Count the effects of one dispatch."""
        for agent in (*record.scope.lineage, record.scope.agent_id):
            if agent and len(self._agents) < _AGENTS:
                self._agents[sys.intern(agent[:_NAME])] = None
        name, outcome = record.call_id or record.subject, record.outcome
        self.counts["asked"] += outcome == "asked"
        self.counts["changed"] += any(entry.status == "changed" for entry in record.entries)
        if outcome == "denied":
            self.counts["denied"] += self._verdicts.get(name) != outcome
        elif not (outcome == "answered" and record.event == TOOL_CALL_BEFORE.name):
            return
        if name:
            self._verdicts[name] = outcome

    def answered_calls(self) -> Counter[tuple[str, str]]:
        """Return the new calls by tool and status, and count those that a person denied."""
        calls = Counter[tuple[str, str]]()
        for call_id, tool, stored in self._answers:
            verdict = self._verdicts.pop(call_id, "")
            status = "answered" if verdict == "answered" and stored != "denied" else stored
            self.counts["denied"] += status == "denied" and verdict != status
            calls[tool, status] += 1
        return calls

    def finish(self, calls: Mapping[tuple[str, str], int]) -> SessionSummary:
        """Return the summary with all counts, and the new *calls*."""
        before, waiting = self._before, list(self._verdicts.items())[-_WAITING:]
        return replace(
            before,
            **{name: getattr(before, name) + count for name, count in self.counts.items()},
            agents=tuple(self._agents),
            prompt=self._prompt,
            calls=_sum_of(before.calls, calls) if calls else before.calls,
            cost=self._cost,
            is_done=self._is_done,
            messages=self.seq,
            records=self.record_seq,
            place=self.place,
            verdicts=dict(waiting) if waiting else _NO_VERDICTS,
        )


def _sum_of(
    before: Mapping[str, Mapping[str, int]], calls: Mapping[tuple[str, str], int]
) -> Mapping[str, Mapping[str, int]]:
    """Return the sum of both, with a bounded number of tools."""
    total = {tool: Counter(statuses) for tool, statuses in before.items()}
    for (tool, status), count in calls.items():
        total.setdefault(bounded_name(tool, total, _TOOLS), Counter())[status] += count
    return total


def _number(value: object) -> int:
    return value if type(value) is int else 0
