"""How an agent goes on in a session that waits for a person, or that a killed process left."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Unpack, overload

from toolbus.agent import open_calls, turns
from toolbus.agent.running import RunnableAgent, T
from toolbus.messages.immutable import EMPTY
from toolbus.tools.contexts import NO_DEPS

if TYPE_CHECKING:
    from toolbus.agent.running import Pieces, RunArguments, V
    from toolbus.events.catalogue import RunResult
    from toolbus.messages.records import JsonObject


class ResumableAgent(RunnableAgent[T]):
    """An agent whose runs may end as pending, and go on, perhaps in another process."""

    async def pending(self) -> tuple[str, ...]:
        """Return the ids of the questions on which its session waits; it looks and changes nothing.

        Those that were answered are among them until `resume` has heard of it.
        """
        await self._start()
        return await self._work.run(open_calls.find_pending(self._main))

    @overload
    async def resume(
        self, *, output_type: None = None, **options: Unpack[RunArguments]
    ) -> RunResult[T]: ...
    @overload
    async def resume(
        self, *, output_type: type[V], **options: Unpack[RunArguments]
    ) -> RunResult[V]: ...
    @overload
    async def resume(
        self, *, output_type: object, **options: Unpack[RunArguments]
    ) -> RunResult[Any]: ...
    async def resume(
        self, *, context: JsonObject = EMPTY, deps: Any = NO_DEPS, output_type: Any = None
    ) -> RunResult[Any]:
        """Go on from what the store has; return how it ended, as "pending" if a person is awaited.

        Calls that wait pass the handlers as they are now, and run once if they were approved; a
        denial is their result. What has ended is not run again, and what a killed process may
        have run is answered as interrupted. Then the model goes on. A session whose last answer
        has no calls is at its end, and this returns that end. `RUN_BEFORE` is not fired again.

        The arguments are those of `run`, and are not kept for it; it has as many turns as a run.
        A run that waits itself, by a guard of `RUN_BEFORE`, has left nothing: `run` it again, with
        its prompt. Raises what `run` raises, and `AppendError` for a session in which there is
        nothing to go on with.
        """
        start = self._run_of(None, context, deps, output_type)
        await self._start()
        return await self._observed(start(None))

    @overload
    def resume_sync(
        self, *, output_type: None = None, **options: Unpack[RunArguments]
    ) -> RunResult[T]: ...
    @overload
    def resume_sync(
        self, *, output_type: type[V], **options: Unpack[RunArguments]
    ) -> RunResult[V]: ...
    @overload
    def resume_sync(
        self, *, output_type: object, **options: Unpack[RunArguments]
    ) -> RunResult[Any]: ...
    def resume_sync(
        self, *, context: JsonObject = EMPTY, deps: Any = NO_DEPS, output_type: Any = None
    ) -> RunResult[Any]:
        """Do as `resume` does, outside any event loop; observers have seen all when it returns."""
        self._check_no_loop("resume()")
        return asyncio.run(
            self._alone(self.resume(context=context, deps=deps, output_type=output_type))
        )

    @overload
    def resume_stream(
        self, *, output_type: None = None, **options: Unpack[RunArguments]
    ) -> Pieces[T]: ...
    @overload
    def resume_stream(
        self, *, output_type: type[V], **options: Unpack[RunArguments]
    ) -> Pieces[V]: ...
    @overload
    def resume_stream(
        self, *, output_type: object, **options: Unpack[RunArguments]
    ) -> Pieces[Any]: ...
    async def resume_stream(
        self, *, context: JsonObject = EMPTY, deps: Any = NO_DEPS, output_type: Any = None
    ) -> Pieces[Any]:
        """Go on as `resume` does, and give what happens, as `stream` does.

        First come the messages that answer the calls that waited, and the end of their turn,
        which is number 0 here.
        """
        start = self._run_of(None, context, deps, output_type)
        await self._start()
        async with aclosing(turns.stream(lambda show: self._observed(start(show)))) as pieces:
            async for item in pieces:
                yield item
