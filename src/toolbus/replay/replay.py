"""`toolbus replay`: recorded sessions through other handlers, without model and tools."""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import AsyncExitStack, redirect_stdout
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.config.loading import load
from toolbus.events.catalogue import CATALOGUE, MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE
from toolbus.formats.items import Aside, Closed, Opened, Problem, Said
from toolbus.formats.lines import LINE_LIMIT
from toolbus.replay.expectations import Expectation, compare, read_expectation
from toolbus.replay.progress import Progress
from toolbus.replay.rehearsal import Rehearsal
from toolbus.replay.reports import JsonReport, Report, TextReport
from toolbus.replay.sources import find_sources, read_sources
from toolbus.terminal.output import Output
from toolbus.terminal.screen import UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Sequence
    from pathlib import Path

    from toolbus.bus.registry import HandlerInfo
    from toolbus.components.components import AgentComponent
    from toolbus.config.loading import Found
    from toolbus.replay.findings import Finding
    from toolbus.replay.plays import Play
    from toolbus.replay.sources import Batch

_REPLAYED = (TOOL_CALL_BEFORE, MESSAGE_APPEND_BEFORE)


class Options(NamedTuple):
    """What a replay is asked for; *most* findings are printed, None: all."""

    format: str | None = None
    session: str | None = None
    limit: int = LINE_LIMIT
    most: int | None = None
    as_json: bool = False
    check: Path | None = None
    update: bool = False


def run_replay(output: Output, sources: Sequence[str], target: str, options: Options) -> int:
    """Replay *sources* through *target*, `FILE.py[:name]`; print what it would do.

    Returns 1 if something could not be read, or with an expectation if it does not hold.
    Raises `UsageError`.
    """
    files, others = find_sources(sources)
    expected = None
    if options.check and not options.update:
        expected = read_expectation(options.check)
    # Failures of handlers are findings here, and in the log they would be said twice.
    logging.getLogger("toolbus").addHandler(logging.NullHandler())
    # What handlers print is not ours.
    with redirect_stdout(sys.stderr):
        found = load(target)
        progress = Progress(Output(sys.stderr))
        report = (JsonReport if options.as_json else TextReport)(output, options.most, progress)
        report.begin(found.target, _not_replayed(found))
        if others:
            report.asides["other file"] += others
        batches = read_sources(
            files, kind=options.format, limit=options.limit, session=options.session
        )
        found_now = _run(Replay(found, report, keep=bool(options.check)).play(batches))
    return _conclude(report, options, expected, found_now)


class Replay:
    """One run over all sources; it holds the sessions that are open, and no messages."""

    def __init__(self, found: Found, report: Report, *, keep: bool) -> None:
        self._found, self._report = found, report
        self._keep, self._kept = keep, Expectation()
        self._rehearsal = Rehearsal(found, self._tell)
        self._plays: dict[str, Play] = {}

    async def play(self, batches: AsyncIterator[Batch]) -> Expectation:
        """Take all *batches*; return what was found, if it was to be kept, and the totals."""
        async with AsyncExitStack() as last:
            for component in self._found.components:
                await _install(component, self._found)
                last.push_async_callback(component.close)
            last.callback(self._rehearsal.listen())
            async for batch in batches:
                await self._take(batch)
                if self._report.lost:
                    break
                # Handlers may have begun tasks, and those want their turn as well.
                await asyncio.sleep(0)
            # Those of a source that broke off.
            for session in tuple(self._plays):
                self._end(session)
        self._report.totals = self._rehearsal.totals
        self._kept.close(self._rehearsal.totals)
        return self._kept

    async def _take(self, batch: Batch) -> None:
        rehearsal, plays = self._rehearsal, self._plays
        for item in batch.items:
            # Nearly all are, and a pattern takes longer.
            if type(item) is Said:
                await rehearsal.take(plays[item.session], item.message)
                continue
            match item:
                case Opened(session):
                    plays[session] = rehearsal.begin(session)
                case Closed(session):
                    self._end(session)
                case Problem(line, reason):
                    rehearsal.totals.unreadable += 1
                    where = f"{batch.source.name}:{line}" if line else batch.source.name
                    self._report.problem(where, reason)
                case Aside(_, kind):
                    self._report.aside(kind)
        self._report.progress.show(batch.source.name, batch.done, rehearsal.totals.messages)

    def _end(self, session: str) -> None:
        play = self._plays.pop(session)
        self._rehearsal.end(play)
        self._report.end_session(session, play.outcomes)

    def _tell(self, finding: Finding) -> None:
        self._report.add(finding)
        if self._keep:
            self._kept.add(finding)


async def _install(component: AgentComponent, found: Found) -> None:
    try:
        await component.install(found.host)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        text = f"component {component.name!r} of {found.target} cannot be installed: {reason}"
        raise UsageError(text) from error


def _run(work: Coroutine[Any, Any, Expectation]) -> Expectation:
    """Run *work* in a loop of its own.

    Not `asyncio.run`: that would hold back an interrupt while a line is waited for.
    """
    with asyncio.Runner() as runner:
        return runner.get_loop().run_until_complete(work)


def _not_replayed(found: Found) -> tuple[str, ...]:
    """Return the names of events whose handlers a replay does not run."""
    known = dict.fromkeys((*CATALOGUE, *found.bus.events))
    return tuple(
        [
            event.name
            for event in known
            if event not in _REPLAYED and any(map(_is_own, found.bus.handlers(event)))
        ]
    )


def _is_own(handler: HandlerInfo) -> bool:
    """Tell whether a person wrote *handler*; every component brings one for its adapters."""
    return not handler.name.endswith("._on_tools_provide_adapter")


def _conclude(
    report: Report, options: Options, expected: Expectation | None, found: Expectation
) -> int:
    """Write or compare the expectation, end the report and return the exit code."""
    if report.lost:
        return 0
    if options.session is not None and not report.totals.sessions:
        report.end(None)
        raise UsageError(f"there is no session {options.session!r} in what was read")
    if options.check and options.update:
        found.write(options.check)
        report.end(None)
        print(f"toolbus: written to {options.check}", file=sys.stderr)  # noqa: T201 - for a person
        return 0
    if expected is None:
        report.end(None)
        return 1 if report.problems else 0
    lines = list(compare(expected, found))
    report.end(lines, str(options.check))
    return 1 if lines else 0
