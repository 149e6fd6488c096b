"""`toolbus submit`: put a durable run on a queue."""

from __future__ import annotations

import asyncio
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from toolbus.cli.output.blocks import print_json
from toolbus.cli.output.screen import open_screen
from toolbus.cli.output.stream import busy_line
from toolbus.cli.parser import make_parser, seconds
from toolbus.cli.worker import add_queue_options, make_engine
from toolbus.config.targets import load_factory
from toolbus.store.store_factory import open_store

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command
    from toolbus.durable.runs import DurableRun

_EPILOG = """\
examples:
  toolbus submit app.py:agent "pay the bill" --store service=agents --queue opus
  toolbus submit app.py:agent --store agent.db < prompt.txt
  toolbus submit app.py:agent "and now?" --store agent.db --session 3f9a

The prompt goes through the handlers of the agent into the session; the queue
gets ids alone. The answer is in the session: `toolbus show STORE SESSION`."""


def command() -> Command:
    """Return the parser and the body of the command."""
    parser = make_parser("toolbus submit", "Put a durable run on a queue.", _EPILOG)
    add_queue_options(parser)
    parser.add_argument("prompt", metavar="PROMPT", nargs="?", help="by default standard input")
    parser.add_argument("--session", metavar="ID", help="the whole id of a session (a new one)")
    parser.add_argument("--tenant", metavar="NAME", default="", help="for limits of each tenant")
    text = "end the run after this time"
    parser.add_argument("--timeout", type=seconds, metavar="SECONDS", help=text)
    parser.add_argument("--json", action="store_true", help="write JSON")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        if parsed.prompt is None:
            parsed.prompt = sys.stdin.buffer.read().decode(errors="replace").strip()
        if not parsed.prompt:
            parser.error("which prompt? give one in quotes, or on standard input")
        with redirect_stdout(sys.stderr), busy_line("submitting"):
            submitted = asyncio.run(_submit(parsed))
        names = {"run": submitted.id, "session": submitted.session_id}
        if parsed.json:
            print_json(output, names)
        else:
            open_screen(output).whole("run {run} of session {session}".format(**names))
        return 0

    return parser, run


async def _submit(parsed: argparse.Namespace) -> DurableRun:
    make_agent, engine = load_factory(parsed.target), make_engine(parsed.store)
    from toolbus.durable.submission import submit  # noqa: PLC0415 - after an error of the engine

    async with open_store(parsed.store) as store:
        try:
            await engine.open()
            return await submit(
                make_agent,
                store,
                engine,
                parsed.prompt,
                queue=parsed.queue,
                session_id=parsed.session,
                tenant=parsed.tenant,
                timeout=parsed.timeout,
            )
        finally:
            await engine.close()
