"""`toolbus demo`: watch an agent work."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from toolbus.cli.options import MODEL, add_model_options
from toolbus.cli.parser import make_parser, program, whole_number

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.demo.live import LiveModel
    from toolbus.cli.output.deferred_output import DeferredOutput
    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command, Parser

_EPILOG = """\
examples:
  toolbus demo                           a new world, drawn at random
  toolbus demo --seed 7                  the world of seed 7, each time the same
  toolbus demo --dir look --seed 7       keep its files in the folder look
  toolbus demo --without NoDestruction   see what happens without that handler
  toolbus demo --json | jq .checks       one JSON document
  toolbus demo --live --model anthropic:NAME     a real model works

It needs git and a POSIX shell; no key, no network, no server. It ends with 0 if
every intervention happened, with 1 if one is missing, and names that one.

With --live a model of a provider works in place of the recording, with its key,
as for `toolbus run`: each command and each file that it writes is asked about,
or with --yes not. Its commands run as you, in a folder of their own that is no
jail. What it does is its own, so it ends with 0 if it came to its end and no
credential was read or stored."""


def command() -> Command:
    """Return the parser and what to do."""
    parser = make_parser(
        "toolbus demo", "Watch an agent work on real files, and handlers intervene.", _EPILOG
    )
    parser.add_argument("--dir", help="an empty or new folder for the files of the run")
    parser.add_argument(
        "--seed",
        type=whole_number("a whole number", 0),
        metavar="N",
        help="draw the same world again",
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="NAME",
        help="leave out a handler's component",
    )
    parser.add_argument("--json", action="store_true", help="write one JSON document")
    parser.add_argument("--live", action="store_true", help="let a real model work")
    parser.add_argument("--yes", action="store_true", help="do not ask about what it does")
    add_model_options(parser)

    def run(parsed: argparse.Namespace, output: Output) -> int:
        from toolbus.cli.demo.scenes import run_demo  # noqa: PLC0415 - as above
        from toolbus.cli.output.deferred_output import DeferredOutput  # noqa: PLC0415 - loads the whole house

        live = None
        with ExitStack() as opened:
            if parsed.live:
                # It waits while a person is asked, for other calls go on.
                output = side = DeferredOutput(sys.stdout)
                live = _live_model(parser, parsed, side, opened)
            elif parsed.model or parsed.base_url or parsed.key_env or parsed.yes:
                parser.error("a model, its address, its key and --yes are for --live; add that")
            return run_demo(
                output,
                folder=parsed.dir,
                seed=parsed.seed,
                without=parsed.without,
                as_json=parsed.json,
                program=program(),
                live=live,
            )

    return parser, run


def _live_model(
    parser: Parser, parsed: argparse.Namespace, side: DeferredOutput, opened: ExitStack
) -> LiveModel:
    from toolbus.cli.assembly import find_model  # noqa: PLC0415 - loads the whole house
    from toolbus.cli.demo.live import LiveModel  # noqa: PLC0415
    from toolbus.cli.output.run_report import RunReport  # noqa: PLC0415
    from toolbus.cli.output.stream import Output  # noqa: PLC0415
    from toolbus.cli.questions.ask_on_write import AskOnWrite  # noqa: PLC0415
    from toolbus.cli.questions.run_prompt import find_terminal_user  # noqa: PLC0415

    name = parsed.model or os.environ.get(MODEL)
    if not name:
        parser.error(f"which model? give --model PROVIDER:NAME, or set {MODEL}")
    model = find_model(name, parsed.base_url, parsed.key_env)
    if parsed.yes:
        return LiveModel(model)
    user = find_terminal_user(opened, Output(sys.stderr))
    if user.keyboard is None:
        parser.error(f"{user.reason}; --yes lets the model do as it likes")
    approver, watch = user.approver(side, RunReport(side, side), None)
    return LiveModel(model, [AskOnWrite()], approver, watch)
