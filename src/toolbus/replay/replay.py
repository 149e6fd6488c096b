"""`toolbus replay`: recorded sessions through other handlers, without model and tools."""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import AsyncExitStack, closing, redirect_stdout
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.cli.output.stream import Output, ProgressLine
from toolbus.components.adapter_handlers import AdapterHandler
from toolbus.components.state import rehearsal, rehearse
from toolbus.config.targets import load, load_configuration
from toolbus.events.catalogue import CATALOGUE
from toolbus.formats.items import MessageItem, Problem, SessionEnd, SessionStart, SkippedLine
from toolbus.formats.session_files import LINE_LIMIT
from toolbus.replay.expectations import Expectation, compare, read_expectation
from toolbus.replay.replayer import REPLAYED, Replayer
from toolbus.replay.reports import JsonReport, ReplayReport, TextReport
from toolbus.replay.sources import find_sources, read_sources
from toolbus.settings.usage_error import UsageError
from toolbus.tasks.loops import set_context

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Sequence
    from pathlib import Path

    from toolbus.components.components import AgentComponent
    from toolbus.config.targets import LoadedTarget
    from toolbus.replay.findings import ReplayFinding
    from toolbus.replay.sessions import ReplaySession
    from toolbus.replay.sources import SourceBatch


class ReplayOptions(NamedTuple):
    """What a replay is asked for; *limit* findings are printed, None: all.

    *line_limit* is the bytes of the longest line that is read, *folder* where sessions began that
    do not say it.
    """

    format: str | None = None
    session: str | None = None
    line_limit: int = LINE_LIMIT
    limit: int | None = None
    as_json: bool = False
    check: Path | None = None
    update: bool = False
    folder: str = ""


def run_replay(
    output: Output, sources: Sequence[str], target: str | None, options: ReplayOptions
) -> int:
    """Replay *sources* through *target*, `FILE.py[:name]`; print what it would do.

    Without a target it is the configuration that is in force here.

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
        loaded = load_configuration() if target is None else load(target)
        progress = ProgressLine(Output(sys.stderr))
        report: ReplayReport = (
            JsonReport(output, progress)
            if options.as_json
            else TextReport(output, progress, options.limit)
        )
        report.begin(loaded.target, _not_replayed(loaded))
        if others:
            report.asides["other file"] += others
        batches = read_sources(
            files, kind=options.format, limit=options.line_limit, session=options.session
        )
        with closing(batches):
            collect, folder = bool(options.check), options.folder
            result = _run(Replay(loaded, report, collect=collect, folder=folder).run(batches))
    return _conclude(report, options, expected, result)


class Replay:
    """One run over all sources through the handlers of *target*.

    It holds the sessions that are open, and no messages. With *collect* it gathers what it
    finds for an expectation. Sessions that do not say where began in *folder*.
    """

    def __init__(
        self, target: LoadedTarget, report: ReplayReport, *, collect: bool, folder: str = ""
    ) -> None:
        self._target, self._report, self._folder = target, report, folder
        self._collect, self._expectation = collect, Expectation()
        self._replayer = Replayer(target, self._add)
        self._sessions: dict[str, ReplaySession] = {}

    async def run(self, batches: Iterator[SourceBatch]) -> Expectation:
        """Take all *batches*; return what was found, if it was to be collected, and the totals."""
        async with AsyncExitStack() as stack:
            stack.enter_context(set_context(rehearsal, rehearse("")))
            for component in self._target.components:
                await _install(component, self._target)
                stack.push_async_callback(component.close)
            stack.callback(self._replayer.listen())
            for batch in batches:
                await self._take(batch)
                if self._report.lost:
                    break
                # Handlers may have begun tasks, and those want their turn as well.
                await asyncio.sleep(0)
            # Those of a source that broke off.
            for session_id in tuple(self._sessions):
                self._end(session_id)
        self._report.totals = self._replayer.totals
        self._expectation.close(self._replayer.totals)
        return self._expectation

    async def _take(self, batch: SourceBatch) -> None:
        replayer, sessions, name = self._replayer, self._sessions, batch.source.name
        for item in batch.items:
            # Nearly all are, and a pattern takes longer.
            if type(item) is MessageItem:
                await replayer.take(sessions[item.session], item.message)
                continue
            match item:
                case SessionStart(session_id, folder):
                    sessions[session_id] = replayer.begin(session_id, folder or self._folder)
                case SessionEnd(session_id):
                    self._end(session_id)
                case Problem(line, reason):
                    replayer.totals.unreadable += 1
                    self._report.problem(name, line, await replayer.shown(reason) or "")
                case SkippedLine(_, kind):
                    self._report.aside(kind)
        count = f"{replayer.totals.messages:,} messages  {name[-30:]}"
        self._report.progress.show(count, batch.done)

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


def _run(work: Coroutine[Any, Any, Expectation]) -> Expectation:
    """Run *work* in a loop of its own.

    Not `asyncio.run`: that would hold back an interrupt while a line is waited for.
    """
    with asyncio.Runner() as runner:
        return runner.get_loop().run_until_complete(work)


def _not_replayed(target: LoadedTarget) -> tuple[str, ...]:
    """Return the names of events whose handlers a replay does not run."""
    known = dict.fromkeys((*CATALOGUE, *target.bus.events))
    # Every component brings one for its adapters; a person wrote the others.
    return tuple(
        [
            event.name
            for event in known
            if event not in REPLAYED
            and not all(isinstance(each, AdapterHandler) for each in target.bus.functions(event))
        ]
    )


def _conclude(
    report: ReplayReport, options: ReplayOptions, expected: Expectation | None, actual: Expectation
) -> int:
    """Write or compare the expectation, end the report and return the exit code."""
    if report.lost:
        return 0
    if options.session is not None and not report.totals.sessions:
        report.end(None)
        raise UsageError(f"there is no session {options.session!r} in what was read")
    if options.check and options.update:
        actual.write(options.check)
        report.end(None)
        print(f"toolbus: written to {options.check}", file=sys.stderr)  # noqa: T201 - for a person
        return 0
    if expected is None:
        report.end(None)
        return 1 if report.problems else 0
    lines = list(compare(expected, actual))
    report.end(lines, str(options.check))
    return 1 if lines else 0
