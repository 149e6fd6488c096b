"""The gate of a call: the interface by which a person decides about calls that guards ask about.

A runner gets its gate once. Without one a call has neither the states nor the steps of a gate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from toolbus.errors import ToolbusError
from toolbus.events.catalogue import Ask, Deny
from toolbus.messages.immutable import EMPTY, thaw

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
    from typing import Self

    from toolbus.bus.bus import EventBus
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.events.catalogue import RunStart, Scope, ToolSpec
    from toolbus.messages.records import ToolCall
    from toolbus.store.protocol import Store

CHANGED_CALL = Deny("the call is another one than was approved; call again to ask anew")
CHANGED_TOOL = Deny("the tool changed since the call was approved; call again to ask anew")


class ApprovalRequest(NamedTuple):
    """A question of *guards*: the *call* as its tool would run, or None for a run of *text*.

    *requested* is the call as the model wrote it, *tool* the spec of its tool, if that is known.
    Each event of *earlier* is set once a call before this one asks no more. *continued* says that
    the call began before, by a yes that was taken, and goes on. A call that *stays_open* is called
    again under its id; after any other pending call the next has a new id. On *bus* a call passes
    `MESSAGE_PERSIST_BEFORE` before it is stored. *fill* returns the call as its tool gets it, or
    a refusal; None: the tool gets the call as it is.
    """

    ask: Ask
    call: ToolCall | None
    scope: Scope
    bus: EventBus
    requested: ToolCall | None = None
    guards: tuple[str, ...] = ()
    earlier: Sequence[asyncio.Event] = ()
    text: str = ""
    fill: Callable[[], Awaitable[ToolCall | Deny]] | None = None
    continued: bool = False
    stays_open: bool = False
    tool: ToolSpec | None = None


class Permit(ABC):
    """A person's yes to one call. *question_id* names its question, "" if none is kept.

    After a yes that *came_later*, the handlers judge the call once more, by the present facts.
    """

    question_id = ""
    came_later = False

    @abstractmethod
    async def take(self, call: ToolCall | None = None, tool: ToolSpec | None = None) -> Deny | None:
        """Use the yes up, in one atomic step; return the reason if the call may not run after all.

        It is the last step before the effect. *call* is what is about to run, a private copy, and
        *tool* the spec of its tool; None for a run.
        """

    async def end(self) -> None:  # noqa: B027 - a yes that is not kept has nothing to close
        """Close the permit, taken or not: its call has an answer. It may be closed twice."""


class Pending(NamedTuple):
    """The question *question_id* has no answer yet; *text* says so to a model.

    *end* withdraws the question: its call never comes back for the answer.
    """

    question_id: str
    text: str
    end: Callable[[], Awaitable[None]]


class CallGate(ABC):
    """Decides about the calls of a runner for which guards ask.

    A gate that *keeps_questions* may leave a call pending; meanwhile the others are answered.
    """

    keeps_questions = False

    @abstractmethod
    async def ask(self, asked: ApprovalRequest) -> Permit | Pending | Deny:
        """Return the yes to *asked*, its refusal, or its question, which has no answer yet.

        A person gets the questions in the order of the calls.
        """

    async def hold(self, session_id: str, call_id: str) -> Permit | Deny | None:  # noqa: ARG002
        """Return the decision of a former question about a call, when no guard asks any more.

        The call was left open while it waited, and is called again. None: there is no question.
        """
        return None


class OpenCalls(NamedTuple):
    """The calls of a session without an answer that can go on, by their ids.

    None of *waiting* has run; each comes with its question. Those of *continued* run a sub-agent,
    whose session comes with them. The ends of the calls in *untold* were told to nobody: their
    question, or one below them, has no answer that was delivered.
    """

    waiting: Mapping[str, str] = EMPTY
    continued: Mapping[str, str] = EMPTY
    untold: frozenset[str] = frozenset()

    def has(self, call: ToolCall) -> bool:
        """Return whether *call* can go on."""
        return call.id in self.waiting or call.id in self.continued


class ResumeGate(CallGate):
    """A gate whose questions outlive a run, so that an agent goes on in its session."""

    @abstractmethod
    def for_host(self, store: Store) -> Self:
        """Return this gate with its questions in *store*, unless it has a store of its own."""

    @abstractmethod
    def below(self, above: CallGate | None) -> CallGate:
        """Return the gate of a sub-agent with this gate, whose caller has *above*."""

    @property
    @abstractmethod
    def store(self) -> Store | None:
        """The store of the questions; a sub-agent without a store keeps its messages there."""

    @abstractmethod
    async def find_open(
        self, session_id: str, call_ids: Collection[str], is_answered: Callable[[str], bool]
    ) -> OpenCalls:
        """Repair the questions of a killed process; return which of the open *call_ids* can go on.

        *is_answered* returns whether the call of an id has its answer.
        """

    @abstractmethod
    async def find_pending(self, session_id: str) -> tuple[str, ...]:
        """Return the ids of the questions that wait in a session and below it."""

    @abstractmethod
    async def withdraw(self, session_id: str, call_ids: Collection[str] | None = None) -> None:
        """Withdraw the questions about *call_ids* and below them; None: all of the session."""

    @abstractmethod
    async def link(self, session_id: str, call_id: str, below: str) -> None:
        """Note that a call runs a sub-agent in the session *below*."""

    @abstractmethod
    async def linked(self, session_id: str, call_id: str) -> str | None:
        """Return the session that a call has begun before for its sub-agent."""


class ApprovalPendingError(ToolbusError):
    """A tool cannot end before a person has answered the questions of the ids *pending*.

    A tool that raises it leaves its call open, where that can be; the call is made once more when
    its agent is resumed, so it has to go on then where it stopped.
    """

    def __init__(self, pending: tuple[str, ...]) -> None:
        self.pending = pending
        super().__init__(pending)

    def __str__(self) -> str:
        questions = f"question{'s'[: len(self.pending) != 1]} {', '.join(self.pending)}"
        return f"a person must approve what this call wants to do; {questions} waits"


def nobody_to_ask(ask: Ask) -> Deny:
    """Return the refusal of *ask* where there is no gate."""
    return Deny("approval is needed, and there is nobody to ask", ask.prompt)


def copy_of(call: ToolCall) -> ToolCall:
    """Return *call* with private arguments: handlers can still reach into frozen ones.

    Raises `FreezeError` if they are not JSON any more.
    """
    return replace(call, arguments=thaw(call.arguments))


def definition_of(tool: ToolSpec | None) -> tuple[Any, ...]:
    """Return the parts of a tool's spec that a person approves: its name, texts and parameters."""
    return () if tool is None else (tool.name, tool.description, tool.input_schema)


async def ask_about_run(
    gate: CallGate | None, bus: EventBus, context: EventContext[RunStart]
) -> Pending | Deny | None:
    """Put the question of *context* to *gate*; return None if the run may begin.

    The yes covers only the beginning, so it is used up and closed at once.
    """
    ask = context.asked or Ask()
    if gate is None:
        return nobody_to_ask(ask)
    text, guards = context.value.text, context.askers
    request = ApprovalRequest(ask, None, context.scope, bus, guards=guards, text=text)
    decision = await gate.ask(request)
    if not isinstance(decision, Permit):
        return decision
    refusal = await decision.take()
    await decision.end()
    return refusal
