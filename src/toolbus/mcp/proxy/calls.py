"""One tool call of a client on the bus: judged, run by the server, judged again."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Raw

from toolbus.errors import MessageDenied
from toolbus.mcp.proxy.frames import INTERNAL_ERROR, Frame, error_frame, read_json, write_frame
from toolbus.mcp.proxy.screening import UNCHANGED, Refused, explained, is_same, is_withheld
from toolbus.mcp.proxy.texts import CALL, ERROR, Seen, refusal, rendered, see
from toolbus.messages import schemas
from toolbus.messages.ids import new_id
from toolbus.messages.records import AssistantMessage, encode
from toolbus.tools.calls.runner import ToolRunner
from toolbus.tools.toolset import Tool, Toolset

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from toolbus.events.catalogue import Scope, ToolCallOutcome, ToolSpec
    from toolbus.mcp.proxy.exchanges import Answer
    from toolbus.mcp.proxy.keeping import Keeper
    from toolbus.mcp.proxy.requests import Request
    from toolbus.mcp.proxy.screening import Screen
    from toolbus.messages.records import JsonObject, ToolCall, ToolResponse
    from toolbus.tools.calls.advertised import AdvertisedTools
    from toolbus.tools.calls.approvals import Approvals
    from toolbus.tools.contexts import ToolContext

    Ask = Callable[[Any, bytes], Awaitable[Answer]]


class CallOnBus:
    """One call on its way, in *task*; `answer` returns the line for the client, for *send*."""

    task: asyncio.Task[None]
    send: Callable[[bytes], object]

    def __init__(
        self, request: Request, ask: Ask, screen: Screen, keeper: Keeper, timeout: float | None
    ) -> None:
        self.request, self.timeout = request, timeout
        self._ask, self._screen, self._keeper = ask, screen, keeper
        self._asks = 0
        self._seen: dict[str, tuple[Seen, Answer]] = {}
        self._runner: ToolRunner | None = None
        self._stopped = False

    def stop(self) -> None:
        """Cancel it; one that the handlers have seen still takes its way to the end."""
        self._stopped = True
        if self._runner is None:
            self.task.cancel()
        else:
            self._runner.stop()

    async def answer(
        self, toolset: Toolset, offer: AdvertisedTools, scope: Scope, approvals: Approvals
    ) -> bytes | None:
        """Take the call past the handlers and to the server; a denial is a result as well.

        Returns None if it was stopped: nobody waits for an answer.
        """
        own = self.request.id
        transcript = self._keeper.transcript()
        ids = _ids_of(self.request.call)
        asking = AssistantMessage(id=ids(), tool_calls=(self.request.call,))
        runner = ToolRunner(
            self._screen.bus,
            toolset,
            scope,
            approver=approvals,
            append=transcript.enter,
            sheltered=True,
            ids=ids,
        )
        try:
            # Without a store nothing is waited for in it, so nothing can be cancelled there.
            sheltered, later = not self._keeper.stores, self._keeper.works
            asked = await transcript.enter(asking, scope, sheltered=sheltered, later=later)
            calls = asked.tool_calls if isinstance(asked, AssistantMessage) else ()
            outcomes = await self._run_all(runner, calls, offer)
            if self._stopped:
                return None
            for outcome in outcomes:
                if outcome.requested.id == self.request.call.id:
                    return await self._rendered(outcome, toolset)
            return self.request.line_of(refusal("a handler took the call away"))
        except (Refused, MessageDenied) as error:
            return self.request.line_of(refusal(error.reason))
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
            return error_frame(
                own, INTERNAL_ERROR, explained(f"tool {self.request.call.name!r}", error)
            )

    async def _run_all(
        self, runner: ToolRunner, calls: Sequence[ToolCall], offer: AdvertisedTools
    ) -> Sequence[ToolCallOutcome]:
        self._runner = runner
        try:
            return await runner.call_all(calls, offer)
        finally:
            self._runner = None

    async def run(self, name: str, arguments: JsonObject) -> ToolResponse:
        """Let the server run its tool *name*; return what handlers see of the answer."""
        self._asks += 1
        own = self.request.id if self._asks == 1 else f"toolbus-{new_id()}"
        answer = await self._ask(own, self.request.line_for(own, name, arguments))
        kind, raw = said(answer.frame)
        try:
            seen = see(CALL if kind == "result" else ERROR, read_json(raw))
        except ValueError as error:
            raise Refused(explained(f"the result of {name!r}", error)) from None
        self._seen[name] = seen, answer
        return seen.response

    async def _rendered(self, outcome: ToolCallOutcome, toolset: Toolset) -> bytes:
        """Return the line that says *outcome*: the server's own, if no handler changed a thing."""
        own, response = self.request.id, outcome.response
        ran = None if outcome.executed is None else self._seen.get(outcome.executed.name)
        if ran is None or is_withheld(response):
            return self.request.line_of(rendered(response))
        seen, answer = ran
        rest = await self._rest(seen, outcome)
        if rest is UNCHANGED and is_same(response, seen.response):
            same = answer.frame.id == own
            return answer.line if same else said_anew(own, answer.frame)
        if answer.frame.failed:
            return write_frame(id=own, error=seen.body(response, response.structured))
        rest = seen.rest if rest is UNCHANGED else rest
        result = seen.result(response, rest)
        spec = toolset.get(outcome.response.tool_name or "")
        lost = seen.response.structured is not None and response.structured is None
        if lost and spec is not None and spec.spec.output_schema is not None:
            # A client refuses a result without the structure that the tool promises.
            result["isError"] = True
        return write_frame(id=own, result=result)

    async def _rest(self, seen: Seen, outcome: ToolCallOutcome) -> Any:
        if seen.rest is None or seen.bare:
            return UNCHANGED
        executed = outcome.executed or outcome.requested
        return await self._screen.rest(executed.name, seen.rest, executed.arguments)


class ServerTool(Tool):
    """A tool of the server, for one call."""

    in_place = True
    is_async = True

    def __init__(self, spec: ToolSpec, offered: ToolSpec | None, call: CallOnBus) -> None:
        # Not found by looking at `run`: there is one of these for each call.
        self.spec, self._offered, self._call = spec, offered or spec, call
        self.timeout = call.timeout
        self.idempotent = spec.annotations.get("idempotentHint") is True

    async def run(self, arguments: JsonObject) -> ToolResponse:
        """Let the server run it."""
        original = self._call.request.call.arguments
        # Not `==`, by which 1 is True.
        if arguments is not original and encode(arguments) == encode(original):
            arguments = original
        return await self._call.run(self.spec.name, arguments)

    def bind(self, values: Mapping[str, Any], context: ToolContext) -> Callable[[], Any]:  # noqa: ARG002
        """Return `run`, ready with *values*; the server has no use for *context*."""
        return partial(self.run, **values)

    def fit(self, arguments: JsonObject) -> tuple[dict[str, Any], str | None]:
        """Return *arguments*, and what a handler broke; the client's own the server judges."""
        original, values = self._call.request.call.arguments, {"arguments": arguments}
        if arguments is original or not self._fits(original):
            return values, None
        return values, schemas.problem(self.spec.input_schema, arguments)

    def _fits(self, arguments: JsonObject) -> bool:
        specs = (self.spec, self._offered)
        return any(schemas.problem(one.input_schema, arguments) is None for one in specs)


class ServerTools(Toolset):
    """The tools that a call may find: those of the server *specs*, and the *own* of components."""

    def __init__(
        self, specs: dict[str, ToolSpec], offer: AdvertisedTools, call: CallOnBus, own: Toolset
    ) -> None:
        super().__init__()
        self._specs, self._offer, self._call, self._components = specs, offer, call, own
        self._found: dict[str, Tool] = {}

    def __iter__(self) -> Iterator[Tool]:
        names = [*self._specs, *[one.spec.name for one in self._components]]
        return iter([one for name in dict.fromkeys(names) if (one := self.get(name)) is not None])

    def get(self, name: str) -> Tool | None:
        """Return the tool *name*, or None; the server's hides one of a component."""
        found, spec = self._found.get(name), self._specs.get(name)
        if spec is None:
            return self._components.get(name)
        if found is None or found.spec is not spec:
            # Asked for several times in a call.
            found = self._found[name] = ServerTool(spec, self._offer.specs.get(name), self._call)
        return found


def _ids_of(call: ToolCall) -> Callable[[], str]:
    """Return what gives the ids of the messages about *call*: its own and a number."""
    return (f"{call.id}-{number}" for number in count(1)).__next__


def said(frame: Frame) -> tuple[str, Raw]:
    """Return the member of an answer that it is about: `error` or `result`, and what it holds."""
    raw = frame.error if frame.failed else frame.result
    return "error" if frame.failed else "result", Raw(b"null") if raw is UNSET else raw


def said_anew(own: Any, frame: Frame) -> bytes:
    """Return the answer *frame* under the id *own*, without what no handler has seen of it."""
    kind, raw = said(frame)
    return write_frame(id=own, **{kind: read_json(raw)})
