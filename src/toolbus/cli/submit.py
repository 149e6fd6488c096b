"""`toolbus submit`: put a durable run on a queue."""

from __future__ import annotations

import asyncio
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from toolbus.cli.output.blocks import print_json
from toolbus.cli.output.screen import open_screen
from toolbus.cli.output.stream import Output, busy_line
from toolbus.cli.parser import make_parser, nonempty, seconds
from toolbus.cli.worker import add_queue_options, make_engine, opened
from toolbus.config.targets import load_factory
from toolbus.history.lookup import find_session
from toolbus.settings.usage_error import UsageError
from toolbus.store.store_factory import open_reader, open_store

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.parser import Command
    from toolbus.durable.runs import DurableRun

_EPILOG = """\
examples:
  toolbus submit app.py:agent "pay the bill" --store service=agents --queue opus
  toolbus submit app.py:agent --store agent.db < prompt.txt
  toolbus submit app.py:agent "and now?" --store agent.db --session 3f9a
  toolbus submit app.py:agent "hello" --store agent.db --new-session ticket-7

The prompt goes through the handlers of the agent into the session; the queue
gets ids alone. The answer is in the session: `toolbus show STORE SESSION`."""


def command() -> Command:
    """Return the parser and the body of the command."""
    parser = make_parser("toolbus submit", "Put a durable run on a queue.", _EPILOG)
    add_queue_options(parser)
    parser.add_argument("prompt", metavar="PROMPT", nargs="?", help="by default standard input")
    text = "continue the session whose id begins so (default: a new one)"
    parser.add_argument("--session", metavar="ID", help=text)
    text = "begin a session with an id of your own"
    parser.add_argument("--new-session", type=nonempty, metavar="ID", help=text)
    text = "whose runs `worker --per-tenant` counts"
    parser.add_argument("--tenant", metavar="NAME", default="", help=text)
    text = "end the run after this time"
    parser.add_argument("--timeout", type=seconds, metavar="SECONDS", help=text)
    parser.add_argument("--json", action="store_true", help="write JSON")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        prompt = _read_prompt() if parsed.prompt is None else parsed.prompt
        parsed.prompt = prompt.strip()
        if not parsed.prompt:
            parser.error("which prompt? give one in quotes, or on standard input")
        if parsed.session is not None and parsed.new_session is not None:
            parser.error("give --session or --new-session, not both")
        with redirect_stdout(sys.stderr), busy_line("submitting"):
            submitted = asyncio.run(_submit(parsed))
        if parsed.json:
            fields = ("id", "session_id", "queue", "word")
            print_json(output, {field: getattr(submitted, field) for field in fields})
        else:
            open_screen(output).whole(f"run {submitted.id} of session {submitted.session_id}")
        return 0

    return parser, run


def _read_prompt() -> str:
    if sys.stdin.isatty():
        Output(sys.stderr).write("type the prompt; Enter and Ctrl-D end it\n")
    return sys.stdin.buffer.read().decode(errors="replace")


async def _submit(parsed: argparse.Namespace) -> DurableRun:
    make_agent, session_id = load_factory(parsed.target), parsed.new_session
    if parsed.session is not None:
        with open_reader(parsed.store) as reader:
            session = find_session(reader, parsed.session)
        if not session.has_entries:
            raise UsageError(f"session {session.id!r} has no messages; give another one")
        session_id = session.id
    engine = make_engine(parsed.store)
    from toolbus.durable.submission import submit  # noqa: PLC0415 - after an error of the engine

    async with open_store(parsed.store) as store:
        if parsed.new_session is not None and await store.read(parsed.new_session):
            raise UsageError(f"session {session_id!r} has begun; continue it with --session")
        async with opened(engine):
            return await submit(
                make_agent,
                store,
                engine,
                parsed.prompt,
                queue=parsed.queue,
                session_id=session_id,
                tenant=parsed.tenant,
                timeout=parsed.timeout,
            )
