"""`toolbus worker`: run the durable runs of a queue until a signal."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import re
import signal
import sys
from contextlib import asynccontextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any, TextIO

from toolbus.cli.output.stream import Output
from toolbus.cli.parser import make_parser, nonempty, pause, positive
from toolbus.config.targets import load_factory
from toolbus.settings.spans import sanitize
from toolbus.settings.usage_error import UsageError
from toolbus.store.store_factory import open_store

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from toolbus.cli.parser import Command, Parser
    from toolbus.durable.engine import RateLimit, WorkflowEngine

_EPILOG = """\
examples:
  toolbus worker app.py:agent --store postgresql://db/agents --queue opus
  toolbus worker app.py:agent --store agent.db          one machine, to develop
  toolbus worker app.py:agent --store service=agents --rate 50/60 --per-tenant 4

app.py has `def agent(session_id, store)`, which returns the agent of a session.
Start as many workers as you like, on as many machines, all with the same
limits: those of the worker that started last apply to the queue. SIGTERM or
Ctrl-C stops it gently: other workers go on with its runs, as they do after a
kill. See `toolbus guide durable`.

exit codes: 0 stopped, 1 it lost its slot and must be started again, 2 usage"""


def command() -> Command:
    """Return the parser and the body of the command."""
    parser = make_parser("toolbus worker", "Run the durable runs of a queue.", _EPILOG)
    add_queue_options(parser)
    for option, metavar, text in (
        ("--runs", "N", "most runs at a time in this worker (50)"),
        ("--all-runs", "N", "most runs at a time in all workers"),
        ("--per-tenant", "N", "most runs of a tenant at a time; runs without one share one"),
    ):
        parser.add_argument(option, type=positive, metavar=metavar, help=text)
    text = "most starts in a time, in all workers, such as 50/60"
    parser.add_argument("--rate", type=_rate, metavar="N/SECONDS", help=text)
    text = "the wait for running steps at a gentle stop (30)"
    parser.add_argument("--grace", type=pause, default=30.0, metavar="SECONDS", help=text)

    def run(parsed: argparse.Namespace, output: Output) -> int:
        # Prints of tools and handlers are no answer of this command.
        with redirect_stdout(sys.stderr):
            return asyncio.run(_serve(parsed, output))

    return parser, run


def add_queue_options(parser: Parser) -> None:
    """Add the agent of runs, their store and their queue."""
    parser.add_argument("target", metavar="FILE.py:NAME", help="the function that makes an agent")
    add_store_option(parser)
    text = "the queue (default)"
    parser.add_argument("--queue", type=nonempty, metavar="NAME", default="default", help=text)


def add_store_option(parser: argparse.ArgumentParser, **options: Any) -> None:
    """Add the store of the sessions and of the engine, required unless it has a default."""
    options.setdefault("required", "default" not in options)
    about = "postgresql://…, service=NAME, or a file"
    parser.add_argument("--store", metavar="STORE", help=about, **options)


def make_engine(address: str) -> WorkflowEngine:
    """Return the engine in the database of the store at *address*; raises `UsageError`."""
    try:
        from toolbus.durable.dbos_engine import DbosEngine  # noqa: PLC0415 - an extra's library
    except ImportError as error:
        raise UsageError(str(error)) from error
    from toolbus.durable.runs import VERSION  # noqa: PLC0415 - slow to import

    return DbosEngine(address, version=VERSION)


@asynccontextmanager
async def opened(engine: WorkflowEngine) -> AsyncGenerator[WorkflowEngine, None]:
    """Return a context with *engine* open, to submit, list and change."""
    try:
        await engine.open()
        yield engine
    finally:
        await engine.close()


async def _serve(parsed: argparse.Namespace, output: Output) -> int:
    make_agent, stop = load_factory(parsed.target), asyncio.Event()
    engine = make_engine(parsed.store)
    from toolbus.durable.engine import QueueLimits  # noqa: PLC0415 - after the error above
    from toolbus.durable.worker import serve  # noqa: PLC0415 - as above

    limits = QueueLimits(
        name=parsed.queue,
        running=parsed.all_runs,
        running_per_worker=parsed.runs or 50,
        running_per_tenant=parsed.per_tenant,
        rate=parsed.rate,
    )
    log_to(sys.stderr)

    def leave() -> None:
        if stop.is_set():
            os._exit(1)  # As a kill: other workers take the runs over.
        Output(sys.stderr).write(
            f"stopping: running calls have {parsed.grace:g} seconds; a second signal ends them\n"
        )
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, leave)

    def ready(slot: str) -> None:
        output.write(f"{sanitize(slot)} runs {sanitize(parsed.target)}; Ctrl-C stops it gently\n")

    async with open_store(parsed.store) as store:
        try:
            is_stopped = await serve(
                make_agent, store, engine, limits, stop, grace=parsed.grace, ready=ready
            )
        finally:
            await engine.close()
    if not is_stopped:
        text = "the slot was lost, to another worker or with the store; its runs go on elsewhere"
        Output(sys.stderr).write(f"error: {text}\n")
        sys.stderr.flush()
        os._exit(1)  # The end would wait for threads of the engine, and they for the server.
    return 0


class QuietFormatter(logging.Formatter):
    """Formats messages of the library without their values, which may quote a session."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of *record*."""
        if record.name not in {"toolbus", "asyncio"}:
            return super().format(record)
        text = re.sub(r"%[a-z]", "…", str(record.msg).partition("\n")[0])
        kind = record.exc_info[0] if record.exc_info else None
        return f"{text} ({record.module}{f', {kind.__name__}' if kind else ''})"


def log_to(stream: TextIO) -> None:
    """Write warnings to *stream*, with nothing of a session."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(QuietFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


def _rate(text: str) -> RateLimit:
    from toolbus.durable.engine import RateLimit  # noqa: PLC0415 - for few

    starts, slash, seconds = text.partition("/")
    if not (starts.isdecimal() and int(starts) and slash and seconds.isdecimal() and int(seconds)):
        raise argparse.ArgumentTypeError(f"expected starts and seconds as 50/60, got {text!r}")
    return RateLimit(int(starts), float(seconds))
