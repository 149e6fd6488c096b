"""`toolbus demo`: watch an agent work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.cli.parsing import make_parser, program, whole_number

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.parsing import Command
    from toolbus.terminal.output import Output

_EPILOG = """\
examples:
  toolbus demo                           a new world, drawn at random
  toolbus demo --seed 7                  the world of seed 7, each time the same
  toolbus demo --dir look --seed 7       keep its files in the folder look
  toolbus demo --without NoDestruction   see what happens without that handler
  toolbus demo --json | jq .checks       one JSON document

It needs git and a POSIX shell; no key, no network, no server. It ends with 0 if
every intervention happened, with 1 if one is missing, and names that one."""


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

    def run(parsed: argparse.Namespace, output: Output) -> int:
        from toolbus.demo.demo import run_demo  # noqa: PLC0415 - loads the whole house

        return run_demo(
            output,
            folder=parsed.dir,
            seed=parsed.seed,
            without=parsed.without,
            as_json=parsed.json,
            program=program(),
        )

    return parser, run
