"""A replay: recorded sessions through other handlers, without model and tools."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Protocol

from toolbus.components.adapter_handlers import AdapterHandler
from toolbus.components.call_facts import FactSources
from toolbus.components.state import replay_place, temporary_place
from toolbus.events.catalogue import CATALOGUE
from toolbus.formats.items import MessageItem, Problem, SessionEnd, SessionStart, SkippedLine
from toolbus.replay.expectations import Expectation
from toolbus.replay.replayer import REPLAYED, Replayer
from toolbus.settings.usage_error import UsageError
from toolbus.tasks.loops import set_context

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from toolbus.components.components import AgentComponent
    from toolbus.config.targets import LoadedTarget
    from toolbus.replay.findings import ReplayFinding, ReplayTotals
    from toolbus.replay.sessions import ReplaySession
    from toolbus.replay.sources import SourceBatch


class ReplayListener(Protocol):
    """The receiver of a replay's findings, problems and progress."""

    totals: ReplayTotals

    @property
    def progress(self) -> ReplayProgress:
        """The display of the progress."""

    @property
    def lost(self) -> bool:
        """Whether the replay may stop: the reader of the report has left."""

    def add(self, finding: ReplayFinding) -> None:
        """Take a finding."""

    def end_session(self, session: str, outcomes: Counter[str]) -> None:
        """Take the *outcomes* of a session at its end."""

    def problem(self, source: str, line: int, reason: str) -> None:
        """Take an unreadable *line* of *source*, or the whole source if it is 0."""

    def skip(self, kind: str) -> None:
        """Take the *kind* of a line without a message."""


class ReplayProgress(Protocol):
    """The display of a replay's progress."""

    def show(self, text: str, done: float | None = None) -> None:
        """Show *text*, and the part *done* from 0 to 1, if known."""


class Replay:
    """One run over all sources through the handlers of *target*.

    It holds the open sessions, and no messages. With *collect* it gathers the findings for an
    expectation. *folder* is the first folder of sessions that do not name theirs.
    """

    def __init__(
        self, target: LoadedTarget, report: ReplayListener, *, collect: bool, folder: str = ""
    ) -> None:
        self._target, self._report, self._folder = target, report, folder
        self._collect, self._expectation = collect, Expectation()
        self._replayer = Replayer(target, self._add)
        self._sessions: dict[str, ReplaySession] = {}

    async def run(self, batches: Iterator[SourceBatch]) -> Expectation:
        """Replay all *batches*; return the totals and, if collected, the findings."""
        async with AsyncExitStack() as stack:
            stack.enter_context(set_context(replay_place, temporary_place("")))
            for component in self._target.components:
                await _install(component, self._target)
                stack.push_async_callback(component.close)
            stack.callback(self._replayer.listen())
            for batch in batches:
                await self._replay_batch(batch)
                if self._report.lost:
                    break
                # Tasks that handlers have started run meanwhile.
                await asyncio.sleep(0)
            # A source that broke off leaves sessions open.
            for session_id in tuple(self._sessions):
                self._end(session_id)
        self._report.totals = self._replayer.totals
        self._expectation.close(self._replayer.totals)
        return self._expectation

    async def _replay_batch(self, batch: SourceBatch) -> None:
        replayer, sessions, name = self._replayer, self._sessions, batch.source.name
        for item in batch.items:
            # Nearly all items are messages, and the pattern below takes longer.
            if type(item) is MessageItem:
                await replayer.replay(sessions[item.session], item.message)
                continue
            match item:
                case SessionStart(session_id, folder, is_partial):
                    sessions[session_id] = replayer.begin(session_id, folder or self._folder)
                    if is_partial:
                        self._hide_texts(session_id)
                case SessionEnd(session_id):
                    self._end(session_id)
                case Problem(line, reason):
                    replayer.totals.unreadable += 1
                    self._report.problem(name, line, await replayer.shown(reason) or "")
                case SkippedLine(_, kind):
                    self._report.skip(kind)
        count = f"{replayer.totals.messages:,} messages  {name[-30:]}"
        self._report.progress.show(count, batch.done)

    def _hide_texts(self, session_id: str) -> None:
        """Tell the components with facts about calls that their host did not show all texts."""
        if self._target.bus.shared(FactSources).facts:
            # Its modules take time to import.
            from toolbus.replay.stored_sources import hide_texts  # noqa: PLC0415

            hide_texts(self._target.bus, session_id)

    def _end(self, session_id: str) -> None:
        session = self._sessions.pop(session_id)
        self._replayer.end(session)
        self._report.end_session(session_id, session.outcomes)

    def _add(self, finding: ReplayFinding) -> None:
        self._report.add(finding)
        if self._collect:
            self._expectation.add(finding)


async def _install(component: AgentComponent, target: LoadedTarget) -> None:
    try:
        await component.install(target.host)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        text = f"component {component.name!r} of {target.target} cannot be installed: {reason}"
        raise UsageError(text) from error


def idle_events(target: LoadedTarget) -> tuple[str, ...]:
    """Return the names of events whose handlers a replay does not run."""
    known = dict.fromkeys((*CATALOGUE, *target.bus.events))
    # A component's own handler, which runs its adapters, is on each event and does not count.
    return tuple(
        [
            event.name
            for event in known
            if event not in REPLAYED
            and not all(isinstance(each, AdapterHandler) for each in target.bus.functions(event))
        ]
    )
