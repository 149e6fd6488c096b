"""Gates: an agent runs as ever, but each of its calls waits for its own step.

| step | word | next |
|---|---|---|
| model | `tools KINDS` | for each `t` a step, for each `a` a sub-agent's workflow; then `model` |
| model | `model` | `model`: the answer did not fit, or was replaced |
| model | `end WORD` | the session's run has ended as WORD |
| tool | `done` | |

A step of a new process begins with `resume`, which answers open calls as interrupted. If the run
is then past the step, the step does nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from toolbus.messages.records import AssistantMessage, ToolMessage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from toolbus.messages.records import Message

TOOL, AGENT = "t", "a"
"""The kinds of calls: of a tool, and of a tool that is another agent."""


class Pulse:
    """Wakes the steps of a segment whenever something has moved."""

    def __init__(self) -> None:
        self._moved = asyncio.Event()

    def beat(self) -> None:
        """Wake all waiting steps."""
        self._moved.set()
        self._moved = asyncio.Event()

    async def until(self, is_so: Callable[[], object]) -> None:
        """Wait until *is_so* returns something true."""
        while not is_so():
            await self._moved.wait()


class Gates:
    """The gates of one session; *begin* starts its run, and *end* returns the word at its end.

    *kind_of* returns the kind of a tool by its name.
    """

    def __init__(
        self,
        pulse: Pulse,
        begin: Callable[[], Awaitable[None]],
        end: Callable[[], str | None],
        kind_of: Callable[[str], str],
    ) -> None:
        self._pulse, self._begin, self.end, self._kind_of = pulse, begin, end, kind_of
        self.reset()

    def reset(self) -> None:
        """Forget the run, for another attempt."""
        self.session_id, self._kinds = "", ""
        self.calls: tuple[str, ...] = ()
        self._is_known = self._is_asked = False
        self._model: asyncio.Future[None] | None = None
        self._held: dict[str, asyncio.Future[None]] = {}
        self._passed: set[str] = set()
        self._answered: set[str] = set()

    def know(self, session_id: str, messages: Sequence[Message] = ()) -> None:
        """Note the session's messages before its run begins."""
        self.session_id, self._is_known = session_id, True
        for message in messages:
            self.note(message)
        self._is_asked = False

    def note(self, message: Message) -> None:
        """Note a *message* of the session."""
        if isinstance(message, AssistantMessage):
            self.calls = tuple([call.id for call in message.tool_calls])
            self._kinds = "".join([self._kind_of(call.name) for call in message.tool_calls])
            self._is_asked = bool(self.calls)
        elif isinstance(message, ToolMessage):
            self._answered.add(message.tool_call_id)
        self._pulse.beat()

    async def hold_model(self) -> None:
        """Wait for the step of the next model call."""
        self._model = gate = asyncio.get_running_loop().create_future()
        self._pulse.beat()
        await gate

    async def hold_call(self, call_id: str) -> None:
        """Wait for the step of a call; nested calls of tools have none."""
        # An approved call is judged twice.
        if call_id in self.calls and call_id not in self._passed:
            self._held[call_id] = gate = asyncio.get_running_loop().create_future()
            self._pulse.beat()
            await gate

    async def model(self) -> str:
        """Let the agent call its model; return the word for the next steps."""
        await self._begin()
        await self._pulse.until(lambda: self.end() or self._model or self._held)
        if self.end() is None and self._model is not None:
            self._is_asked = False
            gate, self._model = self._model, None
            _open(gate)
            await self._pulse.until(lambda: self.end() or self._model or self._is_asked)
        if (word := self.end()) is not None:
            return f"end {word}"
        return f"tools {self._kinds}" if self._model is None else "model"

    async def tool(self, number: int) -> str:
        """Let the agent run a call of its latest answer; return once it has its answer."""
        await self.open_call(number)
        await self._pulse.until(lambda: self.has_answer(number))
        return "done"

    async def open_call(self, number: int) -> str | None:
        """Open the gate of a call; return its id, None if it has its answer without having run."""
        await self._begin()
        await self._pulse.until(lambda: self.has_answer(number) or self._gate_of(number))
        if self.has_answer(number):
            return None
        call_id = self.calls[number]
        self._passed.add(call_id)
        _open(self._held.pop(call_id))
        return call_id

    def has_answer(self, number: int) -> bool:
        """Return whether a call of the latest answer needs no step any more."""
        if self.end() is not None or self._model is not None:
            return True
        is_past = number >= len(self.calls) or self.calls[number] in self._answered
        return self._is_known and is_past

    def _gate_of(self, number: int) -> object:
        return number < len(self.calls) and self._held.get(self.calls[number])


def _open(gate: asyncio.Future[None]) -> None:
    """Open *gate*; a cancelled agent waits at it no more."""
    if not gate.done():
        gate.set_result(None)
