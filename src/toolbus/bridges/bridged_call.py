"""One call of a framework: its tool, its toolset and its approval."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from toolbus.bridges.argument_texts import text_for_number
from toolbus.errors import ToolbusError
from toolbus.events.catalogue import Ask, Deny
from toolbus.messages import schemas
from toolbus.messages.codec import changed
from toolbus.messages.immutable import thaw
from toolbus.messages.records import ToolCall, ToolResponse
from toolbus.tasks.loops import set_context
from toolbus.tools.calls.approver import ImmediatePermit
from toolbus.tools.calls.execution import Ending
from toolbus.tools.calls.gate import (
    CHANGED_CALL,
    ApprovalPendingError,
    CallGate,
    Pending,
    copy_of,
    deny_without_approver,
)
from toolbus.tools.definitions import Tool
from toolbus.tools.toolset import Toolset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.bridges.host import BridgeHost
    from toolbus.bridges.paused_calls import PausedCalls
    from toolbus.bridges.session import BridgeSession, CallEnd
    from toolbus.events.catalogue import ToolSpec
    from toolbus.messages.records import JsonObject
    from toolbus.tasks.shield import ContainedTask
    from toolbus.tools.calls.advertised import AdvertisedTools
    from toolbus.tools.calls.gate import ApprovalRequest, Permit
    from toolbus.tools.calls.runner import ToolRunner
    from toolbus.tools.contexts import ToolContext

RunTool: TypeAlias = Callable[[dict[str, Any]], Awaitable[ToolResponse]]
"""Runs the framework's tool with the final arguments, or raises its failure."""

AskUser: TypeAlias = Callable[[Ask, ToolCall], Awaitable["bool | Deny | None"]]
"""The framework's own approval of a final call; None leaves the question to the approver."""


class RunningCall(NamedTuple):
    """The call *call_id* of *session*, whose tool runs."""

    session: BridgeSession
    call_id: str


RUNNING: ContextVar[RunningCall | None] = ContextVar("toolbus_bridged_call", default=None)
"""The call whose tool runs in this context; agents that run in it are below it."""


class BridgedCall:
    """A call of *session* in progress: its *run*, and the end of that.

    *response* is the tool's own result; *error* its failure; *pause* an error that left it open.
    """

    response: ToolResponse | None = None
    error: BaseException | None = None
    pause: BaseException | None = None
    task: ContainedTask[CallEnd] | None = None
    runner: ToolRunner
    has_begun = is_stopped = False

    def __init__(
        self,
        session: BridgeSession,
        call: ToolCall,
        run: RunTool,
        check: Callable[[Mapping[str, Any]], str | None] | None,
        passes: tuple[type[BaseException], ...],
    ) -> None:
        self._session, self.call = session, call
        self._run, self.check, self._passes = run, check, passes

    async def run(self, arguments: JsonObject) -> ToolResponse:
        """Run the tool once; keep its result or its failure."""
        self.error = None
        try:
            with set_context(RUNNING, RunningCall(self._session, self.call.id)):
                self.response = await self._run(thaw(arguments))
        except self._passes as pause:
            self.pause = pause
            raise ApprovalPendingError(()) from None
        except CancelledError:
            raise
        except BaseException as error:
            self.error, self.response = error, Ending(error=error).response
            raise
        return self.response

    def stop(self) -> None:
        """Cancel the tool, or the handlers of the message before it, which may hang."""
        # Once: a scope of anyio cancels its task again in each turn of the loop, and a stop that
        # is renewed each time would never come to its end.
        if not self.is_stopped:
            self.is_stopped = True
            self.runner.stop()
        if self.task is not None and not self.has_begun:
            self.task.cancel()


class BridgedTool(Tool):
    """A tool of the framework, bound to one call."""

    lenient = False  # The framework validates the model's own arguments.
    is_async = True

    def __init__(
        self, spec: ToolSpec, offered: ToolSpec, bridged: BridgedCall, host: BridgeHost
    ) -> None:
        # Set directly, not derived from `run`, because each call makes an instance.
        self.spec, self._offered, self._bridged = spec, offered, bridged
        self._host, self.timeout = host, host.timeout
        self.idempotent = spec.annotations.get("idempotentHint") is True or any(
            fnmatchcase(spec.name, pattern) for pattern in host.idempotent
        )

    async def run(self, arguments: JsonObject) -> ToolResponse:
        """Run the tool in the framework."""
        self._host.check_open()
        if self.spec.name != self._bridged.call.name:
            reason = f"a handler changed the tool to {self.spec.name!r}"
            title = self._host.framework.title
            raise BridgeError(f"{reason}, and {title} cannot run another tool")
        return await self._bridged.run(arguments)

    def bind(
        self,
        values: Mapping[str, Any],
        context: Callable[[], ToolContext],  # noqa: ARG002 - as `Tool.bind`
    ) -> Callable[[], Any]:
        """Return `run` with *values*; *context* is not used."""
        return partial(self.run, **values)

    def fit(self, arguments: JsonObject) -> tuple[dict[str, Any], str | None]:
        """Return *arguments*, and their problem, or None.

        Without a check of the framework, problems of the model's own arguments are left to it.
        """
        values, original = {"arguments": arguments}, self._bridged.call.arguments
        if (place := text_for_number(arguments, self.spec.input_schema)) is not None:
            return values, f"expected a number or a boolean, got text - at `{place}`"
        if self._bridged.check is not None:
            return values, self._bridged.check(thaw(arguments))
        if arguments is original or not self._fits(original):
            return values, None
        return values, schemas.problem(self.spec.input_schema, arguments)

    def _fits(self, arguments: JsonObject) -> bool:
        specs = (self.spec, self._offered)
        return any(schemas.problem(spec.input_schema, arguments) is None for spec in specs)


class CallTools(Toolset):
    """The tools of one call: the agent's, of which only its own can run, and the components'."""

    def __init__(
        self,
        specs: Mapping[str, ToolSpec],
        advertised: AdvertisedTools,
        bridged: BridgedCall,
        host: BridgeHost,
    ) -> None:
        super().__init__()
        self._specs, self._advertised = specs, advertised
        self._bridged, self._host = bridged, host
        self._made: dict[str, Tool] = {}

    def __iter__(self) -> Iterator[Tool]:
        names = [*self._specs, *[tool.spec.name for tool in self._host.tools]]
        return iter([tool for name in dict.fromkeys(names) if (tool := self.get(name)) is not None])

    def get(self, name: str) -> Tool | None:
        """Return the tool *name*, or None; the agent's takes precedence over a component's."""
        tool, spec = self._made.get(name), self._specs.get(name)
        if spec is None:
            return self._host.tools.get(name)
        if tool is None:
            # Cached, because a call looks its tool up several times.
            offered = self._advertised.specs.get(name, spec)
            tool = self._made[name] = BridgedTool(spec, offered, self._bridged, self._host)
        return tool


class FrameworkGate(CallGate):
    """A gate that puts questions to the framework first, by *ask*, and then to *stored*.

    *paused* has the questions of calls that the framework has paused. *bridged* gets the error by
    which it pauses this one.
    """

    keeps_questions = True

    def __init__(
        self,
        stored: CallGate | None,
        ask: AskUser | None,
        paused: PausedCalls,
        bridged: BridgedCall,
    ) -> None:
        self._stored, self._ask, self._paused, self._bridged = stored, ask, paused, bridged

    async def ask(self, asked: ApprovalRequest) -> Permit | Pending | Deny:
        """Return the user's decision in the framework, or else the approver's."""
        call = asked.call
        if self._ask is None or call is None:
            return await self._ask_stored(asked)
        if not self._paused.fits(call, asked.ask):
            # The framework's answer may be to a former question about this id.
            return CHANGED_CALL if self._stored is None else await self._ask_stored(asked)
        permit = ImmediatePermit(copy_of(call), asked.tool)
        try:
            answer = await self._ask(asked.ask, copy_of(call))
        except (CancelledError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - raised when the call has been left open
            self._bridged.pause = error
            return Pending("", "the framework paused the call", _nothing)
        if answer is None:
            self._paused.unask(call.id)
            return await self._ask_stored(asked)
        if answer is True:
            return permit
        prompt = asked.ask.prompt
        return answer if isinstance(answer, Deny) else Deny("approval was refused", prompt)

    async def _ask_stored(self, asked: ApprovalRequest) -> Permit | Deny:
        if self._stored is None:
            return deny_without_approver(asked.ask)
        decision = await self._stored.ask(asked._replace(stays_open=False))
        # The framework's next call has a new id.
        return Deny(decision.text) if isinstance(decision, Pending) else decision


class BridgeError(ToolbusError):
    """A request that a bridge or its framework cannot serve."""


def is_same(read: ToolResponse, response: ToolResponse) -> bool:
    """Return whether *read* and *response* are the same for a model."""
    return (
        read.content == response.content
        and read.is_error == response.is_error
        and not changed(read.structured, response.structured)
    )


def without_unseen(error: BaseException | None) -> BaseException | None:
    """Return *error* without the texts that its handlers have not seen, but traces would show.

    These are its cause, its context and its notes. A group has errors with such texts: None.
    """
    if error is None or isinstance(error, BaseExceptionGroup):
        return None
    # In place, because not every exception can be copied.
    error.__cause__ = error.__context__ = None
    vars(error).pop("__notes__", None)
    return error


async def _nothing() -> None:
    """Do nothing: the framework keeps its own question."""
