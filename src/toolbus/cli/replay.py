"""`toolbus replay`: recorded sessions through other handlers, without model and tools."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from contextlib import closing, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbus.cli.options import store_address
from toolbus.cli.output.replay_report import JsonReport, ReplayReport, TextReport
from toolbus.cli.output.stream import Output, ProgressLine
from toolbus.cli.parser import make_parser, megabytes
from toolbus.config.targets import load, load_configuration
from toolbus.replay.expectations import Expectation, compare, read_expectation
from toolbus.replay.replay import Replay, idle_events
from toolbus.replay.sources import find_sources, read_sources
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Coroutine

    from toolbus.cli.parser import Command, Parser
    from toolbus.config.targets import LoadedTarget

_MAX_FINDINGS = 100
"""The findings that are printed without --all."""

_FORMATS = ("sqlite", "toolbus", "openai", "anthropic", "claude-code")
_EPILOG = """\
examples:
  toolbus replay agent.db --with policy.py             a store of toolbus
  toolbus replay all.jsonl --with policy.py:Strict     an exported file
  toolbus replay all.jsonl --with toolbus.toml         a configuration
  toolbus replay all.jsonl --with policy.toml          the rules of a policy
  toolbus replay all.jsonl                             your configuration
  toolbus replay --with policy.py                      coding agents' sessions
  toolbus replay ~/.claude/projects --with policy.py   sessions of Claude Code
  toolbus replay a.jsonl --with policy.py --check expected.json --update
  toolbus replay a.jsonl --with policy.py --check expected.json
  toolbus replay ~/.claude/projects --labels           whose words they are

No model and no tool is called: recorded calls pass TOOL_CALL_BEFORE, recorded
messages MESSAGE_APPEND_BEFORE. The handlers are those of an agent, a bus, a
component or a function's return value; without --with, those of your own
toolbus.toml and of the nearest one that you trust (`toolbus trust`).
Questions count as approved. A call with hidden values in its recorded
arguments stays as recorded and is "unjudged"; a person's no is "refused".
Exit codes: 0 success, 1 unreadable input or an expectation that does not hold,
2 usage error."""


def command() -> Command:
    """Return the parser and the body of the command."""
    parser = make_parser("toolbus replay", "Run recorded sessions through other handlers.", _EPILOG)
    _add_arguments(parser)

    def run(parsed: argparse.Namespace, output: Output) -> int:
        if parsed.update and not parsed.check:
            parser.error("--update needs --check FILE")
        if parsed.labels and parsed.check:
            parser.error("--labels writes no findings to compare; leave out --check")
        return _replay(parsed, output)

    return parser, run


def _add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "sources", metavar="SOURCE", nargs="*", help="files, folders, stores, hooks or -"
    )
    parser.add_argument(
        "--with",
        dest="target",
        metavar="FILE",
        help="the handlers: a toolbus.toml, a policy or FILE.py[:name]; default: yours here",
    )
    parser.add_argument(
        "--format", metavar="NAME", choices=_FORMATS, help=f"of the sources: {', '.join(_FORMATS)}"
    )
    parser.add_argument("--session", metavar="ID", help="only this session")
    parser.add_argument(
        "--folder", metavar="DIR", type=Path, help="the folder of sessions without a recorded one"
    )
    parser.add_argument(
        "--labels", action="store_true", help="print the labels of messages and calls instead"
    )
    parser.add_argument("--all", action="store_true", help="print more than 100 findings")
    parser.add_argument("--json", action="store_true", help="write one JSON document")
    parser.add_argument("--check", type=Path, metavar="FILE", help="compare with an expectation")
    parser.add_argument("--update", action="store_true", help="write the expectation instead")
    parser.add_argument(
        "--max-line", type=megabytes, default=16, metavar="MB", help="longest line (16)"
    )


def _replay(parsed: argparse.Namespace, output: Output) -> int:
    """Replay the sources through the target, or the active configuration; print the effects.

    Returns 1 for unreadable input, or if given for an expectation that does not hold.
    """
    files, others = find_sources([store_address(source) for source in parsed.sources or [None]])
    expected = None
    if parsed.check and not parsed.update:
        expected = read_expectation(parsed.check)
    # Failures of handlers are findings here; the log would repeat them.
    logging.getLogger("toolbus").addHandler(logging.NullHandler())
    # Handlers may print; standard output is the report's alone.
    with redirect_stdout(sys.stderr):
        loaded = load_configuration() if parsed.target is None else load(parsed.target)
        progress = ProgressLine(Output(sys.stderr))
        report = _report(parsed, output, progress, loaded)
        report.begin(loaded.target, idle_events(loaded))
        if others:
            report.skipped["other file"] += others
        limit = parsed.max_line * 2**20
        batches = read_sources(files, kind=parsed.format, limit=limit, session=parsed.session)
        with closing(batches):
            collect = bool(parsed.check)
            folder = "" if parsed.folder is None else os.path.realpath(parsed.folder)
            actual = _run(Replay(loaded, report, collect=collect, folder=folder).run(batches))
    return _conclude(report, parsed, expected, actual)


def _report(
    parsed: argparse.Namespace, output: Output, progress: ProgressLine, loaded: LoadedTarget
) -> ReplayReport:
    limit = None if parsed.all else _MAX_FINDINGS
    if not parsed.labels:
        return JsonReport(output, progress) if parsed.json else TextReport(output, progress, limit)
    # Its modules take time to import.
    from toolbus.cli.output.label_report import (  # noqa: PLC0415
        LabelJsonReport,
        LabelTextReport,
    )

    report: LabelJsonReport | LabelTextReport = (
        LabelJsonReport(output, progress)
        if parsed.json
        else LabelTextReport(output, progress, limit)
    )
    report.follow(loaded)
    return report


def _run(work: Coroutine[Any, Any, Expectation]) -> Expectation:
    """Run *work* in a new loop.

    Not with `asyncio.run`, which delays an interrupt until the next line has been read.
    """
    with asyncio.Runner() as runner:
        return runner.get_loop().run_until_complete(work)


def _conclude(
    report: ReplayReport,
    parsed: argparse.Namespace,
    expected: Expectation | None,
    actual: Expectation,
) -> int:
    """Write or compare the expectation, end the report and return the exit code."""
    if report.lost:
        return 0
    if parsed.session is not None and not report.totals.sessions:
        report.end(None)
        raise UsageError(f"no session {parsed.session!r} in the sources; see `toolbus sessions`")
    if parsed.check and parsed.update:
        actual.write(parsed.check)
        report.end(None)
        Output(sys.stderr).write(f"toolbus: written to {parsed.check}\n")
        return 0
    if expected is None:
        report.end(None)
        return 1 if report.problems else 0
    lines = list(compare(expected, actual))
    report.end(lines, str(parsed.check))
    return 1 if lines else 0
