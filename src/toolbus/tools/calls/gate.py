"""The gate of a call: the interface by which a person answers the questions of guards.

A runner gets its gate once. A call without one has neither the states nor the steps of a gate.
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

CHANGED_CALL = Deny("the call changed after its approval; call again for a new approval")
CHANGED_TOOL = Deny("the tool changed after its approval; call again for a new approval")


class ApprovalRequest(NamedTuple):
    """A question of *guards*: the *call* as its tool would run, or None for a run of *text*.

    *requested* is the call as the model wrote it, *tool* the spec of its tool, if known. Each event
    of *earlier* is set once an earlier call has no more questions. *continued*: the call began
    before, with an approval already used, and goes on. A call that *stays_open* is repeated under
    its id; after any other pending call the next has a new id. On *bus* a call passes
    `MESSAGE_PERSIST_BEFORE` before it is stored. *fill* returns the call as its tool gets it, or
    a denial; None: the tool gets the call as it is.
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
    """A person's approval of one call. *question_id* is its question's, "" if that is not stored.

    After an approval that *came_later*, the handlers judge the call once more, on present facts.
    """

    question_id = ""
    came_later = False

    @abstractmethod
    async def take(self, call: ToolCall | None = None, tool: ToolSpec | None = None) -> Deny | None:
        """Use the approval, in one atomic step; return a reason if the call may not run after all.

        This is the last step before the effect. *call* is the call about to run, a private copy,
        and *tool* the spec of its tool; None for a run.
        """

    async def end(self) -> None:  # noqa: B027 - an approval that is not stored has nothing to close
        """Close the permit, used or not: its call has an answer. Idempotent."""


class Pending(NamedTuple):
    """The unanswered question *question_id*; *text* describes it to a model.

    *end* withdraws the question, for a call that never comes back for the answer.
    """

    question_id: str
    text: str
    end: Callable[[], Awaitable[None]]


class CallGate(ABC):
    """Decides the questions of guards about the calls of a runner.

    A gate that *keeps_questions* may leave a call pending; meanwhile the others are answered.
    """

    keeps_questions = False

    @abstractmethod
    async def ask(self, asked: ApprovalRequest) -> Permit | Pending | Deny:
        """Return the approval of *asked*, its denial, or its unanswered question.

        A person gets the questions in the order of the calls.
        """

    async def hold(self, session_id: str, call_id: str) -> Permit | Deny | None:  # noqa: ARG002
        """Return the decision of a former question about a call that guards now allow.

        The call was left open while it waited, and is called again. None: there is no question.
        """
        return None


class OpenCalls(NamedTuple):
    """The calls of a session without an answer that can go on, by their ids.

    Calls in *waiting* have not run; the values are their questions. Calls in *continued* run a
    sub-agent; the values are their sessions. The ends of the calls in *untold* were never reported:
    the answer to their question, or to one below them, was not delivered.
    """

    waiting: Mapping[str, str] = EMPTY
    continued: Mapping[str, str] = EMPTY
    untold: frozenset[str] = frozenset()

    def has(self, call: ToolCall) -> bool:
        """Return whether *call* can go on."""
        return call.id in self.waiting or call.id in self.continued


class ResumeGate(CallGate):
    """A gate whose questions outlive a run, so that an agent can go on in its session."""

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
        """Store that a call runs a sub-agent in the session *below*."""

    @abstractmethod
    async def linked(self, session_id: str, call_id: str) -> str | None:
        """Return the session that a call has begun for its sub-agent, or None."""


class ApprovalPendingError(ToolbusError):
    """A tool cannot end before a person has answered the questions with the ids *pending*.

    A tool that raises it leaves its call open, where possible; the call is repeated when its agent
    is resumed, and must go on then where it stopped.
    """

    def __init__(self, pending: tuple[str, ...]) -> None:
        self.pending = pending
        super().__init__(pending)

    def __str__(self) -> str:
        questions = "question {} is" if len(self.pending) == 1 else "questions {} are"
        return f"a person must approve this call; {questions.format(', '.join(self.pending))} open"


def deny_without_approver(ask: Ask) -> Deny:
    """Return the denial for *ask* where there is no gate."""
    return Deny("approval is needed, and no approver is available", ask.prompt)


def copy_of(call: ToolCall) -> ToolCall:
    """Return *call* with private arguments, because handlers can still reach into frozen ones.

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

    The approval covers only the beginning, so it is used and closed at once.
    """
    ask = context.asked or Ask()
    if gate is None:
        return deny_without_approver(ask)
    text, guards = context.value.text, context.askers
    request = ApprovalRequest(ask, None, context.scope, bus, guards=guards, text=text)
    decision = await gate.ask(request)
    if not isinstance(decision, Permit):
        return decision
    refusal = await decision.take()
    await decision.end()
    return refusal
