"""`toolbus doctor`: whether our hooks in coding agents work, and what they reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.cli.parser import make_parser

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command

_EPILOG = """\
examples:
  toolbus doctor                     all hosts that are found, in this folder
  toolbus doctor claude-code         one of them
  toolbus doctor --json | jq '.hosts[].findings'

For each host it says which version is there, whether our hooks are installed,
whole, and run; what switches them off or stands beside them, in your settings,
in this project's and in those of this machine; and for each component of the
configuration in force what reaches the model, what cannot, and the way round.

A call, its result with a made-up secret, and garbage are really sent through
the installed hooks; what is kept of them is deleted. --no-events sends none.

It changes nothing. It ends with 1 if something is open that was promised to be
closed, if installed hooks have nothing that judges, or if something is broken,
so that every call is stopped."""


def command() -> Command:
    """Return the parser and what to do."""
    parser = make_parser("toolbus doctor", "Say whether our hooks in coding agents work.", _EPILOG)
    parser.add_argument("hosts", metavar="HOST", nargs="*", help="all that are found, if none")
    parser.add_argument("--no-events", action="store_true", help="send no made-up events")
    parser.add_argument("--json", action="store_true", help="write one JSON document")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        from toolbus.hosts.doctor.report import run_doctor  # noqa: PLC0415 - loads the house

        return run_doctor(output, parsed.hosts, sends=not parsed.no_events, as_json=parsed.json)

    return parser, run
