"""`toolbus hook`: answer one event of a coding agent's hooks."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from toolbus.cli.parser import make_parser, seconds

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command
    from toolbus.hosts.dialects.hook_events import HookAnswer
    from toolbus.hosts.run.event_answer import WaitingHost

_STOPPED = 2
"""The exit code that stops most hosts, after no answer or a part of one."""

_EPILOG = """\
examples:
  toolbus hook claude-code PreToolUse < event.json    the answer to Claude Code
  toolbus hook gemini-cli AfterTool --config rules.toml < event.json
  toolbus hook codex PreToolUse --store try.db < event.json

It reads the JSON of one event from standard input and writes the answer in the
host's format. Your own toolbus.toml applies, and after it the one of the
session's project if you trust it. Every failure blocks: garbage, a broken
configuration, a full disk, an event beyond --limit. Prints of handlers are
dropped, because a host would read them. `toolbus sessions`, `show`, `explain`,
`export` and `replay` read its store. `toolbus hosts install HOST` installs a
faster client."""


def command() -> Command:
    """Return the parser and the function of this command."""
    summary = "Answer one event of a coding agent's hooks."
    parser = make_parser("toolbus hook", summary, _EPILOG)
    parser.add_argument("host", metavar="HOST", help="claude-code, codex, gemini-cli, ...")
    parser.add_argument("event", metavar="EVENT", help="the host's name of it: PreToolUse, ...")
    parser.add_argument("--config", metavar="FILE", help="this configuration alone")
    parser.add_argument(
        "--store", metavar="FILE", help="file of the sessions, not in the state folder"
    )
    parser.add_argument(
        "--limit", metavar="SECONDS", type=seconds, help="most seconds for the event (20)"
    )

    def run(parsed: argparse.Namespace, _: Output) -> int:
        host: WaitingHost | None = None
        try:
            for each in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
                signal.signal(each, _stop)
            from toolbus.hosts.run import event_answer  # noqa: PLC0415 - not for the help
            from toolbus.hosts.run.requests import LIMIT  # noqa: PLC0415 - as above

            host = event_answer.WaitingHost(parsed.host, parsed.event, parsed.limit or LIMIT)
            # First: if standard input is closed, the next file to be opened would take its place.
            host.read_event()
            host.hide_outputs()
            host.write(_answer(parsed, host))
        except BaseException:  # noqa: BLE001, S110 - also SystemExit of a component: hosts read our code
            pass
        # A normal exit would wait for a thread that hangs.
        os._exit(_STOPPED if host is None else host.exit_code)

    return parser, run


def _stop(*_: object) -> NoReturn:
    os._exit(_STOPPED)


def _answer(parsed: argparse.Namespace, host: WaitingHost) -> HookAnswer:
    from toolbus.hosts.run import event_answer  # noqa: PLC0415 - as above
    from toolbus.hosts.run.event_input import answer_unread  # noqa: PLC0415
    from toolbus.hosts.run.requests import HookSettings, default_store  # noqa: PLC0415

    try:
        store = Path(parsed.store).absolute() if parsed.store else default_store()
        config = None if parsed.config is None else str(Path(parsed.config).absolute())
    except (OSError, RuntimeError):
        reason = "there is no home or no working folder"
        return answer_unread(parsed.host, parsed.event, host.data, reason)
    settings = HookSettings(config=config, store=store, limit=host.limit)
    return event_answer.answer(parsed.host, parsed.event, host.data, settings, on_answer=host.write)
