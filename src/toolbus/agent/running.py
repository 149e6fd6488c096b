"""How an agent is run: to its end, outside of loops, piece by piece."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Generic, TypedDict, Unpack, overload

from toolbus.agent import turns
from toolbus.agent.lifecycle import LivingAgent
from toolbus.agent.outputs import output_of
from toolbus.bus.dispatch.deadlines import running_loop
from toolbus.errors import AppendError
from toolbus.messages.immutable import EMPTY
from toolbus.models.protocol import close_model
from toolbus.tools.contexts import NO_DEPS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine
    from typing import TypeAlias

    # The library of that name is not needed: type checkers know it, and nothing else does.
    from typing_extensions import TypeVar

    from toolbus.agent.model_calls import Piece
    from toolbus.agent.prompts import Prompt
    from toolbus.events.catalogue import RunResult
    from toolbus.messages.records import JsonObject

    T = TypeVar("T", default=Any)
    V = TypeVar("V")
    Pieces: TypeAlias = AsyncGenerator[Piece | RunResult[V], None]
else:
    from typing import TypeVar

    T = TypeVar("T")


class RunArguments(TypedDict, total=False):
    """What `Agent.run` takes beside its prompt and `output_type`; see there."""

    context: JsonObject
    deps: Any


class RunnableAgent(LivingAgent, Generic[T]):
    """An agent whose runs end with an output of the type `T`, unless a run has its own."""

    @overload
    async def run(
        self, prompt: Prompt, *, output_type: None = None, **options: Unpack[RunArguments]
    ) -> RunResult[T]: ...
    @overload
    async def run(
        self, prompt: Prompt, *, output_type: type[V], **options: Unpack[RunArguments]
    ) -> RunResult[V]: ...
    @overload
    async def run(
        self, prompt: Prompt, *, output_type: object, **options: Unpack[RunArguments]
    ) -> RunResult[Any]: ...
    async def run(
        self,
        prompt: Prompt,
        *,
        context: JsonObject = EMPTY,
        deps: Any = NO_DEPS,
        output_type: Any = None,
    ) -> RunResult[Any]:
        """Run on *prompt* until the model answers without a tool call; return how it ended.

        Outside `async with` it also waits for async observers, for the time of grace at most.

        Raises what a model or a store raised if no handler of `RUN_ERROR` answers, and
        `MessageDenied` if the prompt was refused at the transcript.

        Args:
            prompt: what the user says: text, a list of texts and parts, or a `UserMessage`, whose
                id and metadata stay. `RunStart.prompt` has its content.
            context: who asks and how (user, tenant, language): `Scope.context` of every event.
            deps: in place of those of the agent, for this run.
            output_type: in place of that of the agent, for this run; `str`: text.
        """
        start = self._run_of(prompt, context, deps, output_type)
        await self._start()
        return await self._observed(start(None))

    @overload
    def run_sync(
        self, prompt: Prompt, *, output_type: None = None, **options: Unpack[RunArguments]
    ) -> RunResult[T]: ...
    @overload
    def run_sync(
        self, prompt: Prompt, *, output_type: type[V], **options: Unpack[RunArguments]
    ) -> RunResult[V]: ...
    @overload
    def run_sync(
        self, prompt: Prompt, *, output_type: object, **options: Unpack[RunArguments]
    ) -> RunResult[Any]: ...
    def run_sync(
        self,
        prompt: Prompt,
        *,
        context: JsonObject = EMPTY,
        deps: Any = NO_DEPS,
        output_type: Any = None,
    ) -> RunResult[Any]:
        """Do as `run` does, outside any event loop; observers have seen all when it returns."""
        self._check_no_loop("run(prompt)")
        return asyncio.run(
            self._alone(self.run(prompt, context=context, deps=deps, output_type=output_type))
        )

    @overload
    def stream(
        self, prompt: Prompt, *, output_type: None = None, **options: Unpack[RunArguments]
    ) -> Pieces[T]: ...
    @overload
    def stream(
        self, prompt: Prompt, *, output_type: type[V], **options: Unpack[RunArguments]
    ) -> Pieces[V]: ...
    @overload
    def stream(
        self, prompt: Prompt, *, output_type: object, **options: Unpack[RunArguments]
    ) -> Pieces[Any]: ...
    async def stream(
        self,
        prompt: Prompt,
        *,
        context: JsonObject = EMPTY,
        deps: Any = NO_DEPS,
        output_type: Any = None,
    ) -> Pieces[Any]:
        """Run as `run` does, and give what happens, piece by piece, at the end the result.

        A `ModelDelta` is a piece of text, of reasoning, or of a tool call as it grows; then come
        the `ToolMessage` that answers a call, and a `TurnEnd`. What a handler may still change or
        refuse is held: text until its message was appended, arguments until the call was judged;
        so without such handlers the pieces are given as they come. Leaving the loop early cancels
        the run; inside `contextlib.aclosing` it has ended when the block has.
        """
        start = self._run_of(prompt, context, deps, output_type)
        await self._start()
        async with aclosing(turns.stream(lambda show: self._observed(start(show)))) as pieces:
            async for item in pieces:
                yield item

    def _check_no_loop(self, call: str) -> None:
        if running_loop() is not None:
            reason = f"an event loop runs here; use `await agent.{call}`"
            raise AppendError(self.scope.session_id, reason)

    async def _alone(self, work: Coroutine[Any, Any, V]) -> V:
        """Return what *work* returns, in a loop that ends with it."""
        limit = None
        try:
            return await work
        except asyncio.CancelledError:
            limit = self._work.grace
            raise
        finally:
            await self.bus.drain(limit)
            await close_model(self._config.model)  # Its loop ends here.

    def _run_of(
        self, prompt: Prompt | None, context: JsonObject, deps: Any, output_type: Any
    ) -> Callable[[Callable[[Piece], None] | None], Coroutine[Any, Any, RunResult[Any]]]:
        """Return what makes a run that shows its pieces; raises `RegistrationError`.

        Without a *prompt* it goes on where the session stands.
        """
        output = self._config.output if output_type is None else output_of(output_type)
        return lambda show: turns.run(self._main, prompt, context, show, deps, output)
