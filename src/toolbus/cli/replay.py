"""`toolbus replay`: run recorded sessions through other handlers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.cli.options import store_address
from toolbus.cli.parser import make_parser, megabytes

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command, Parser

_FORMATS = ("sqlite", "toolbus", "openai", "anthropic", "claude-code")
_EPILOG = """\
examples:
  toolbus replay agent.db --with policy.py             a store of ours
  toolbus replay all.jsonl --with policy.py:Strict     what `export` wrote
  toolbus replay all.jsonl --with toolbus.toml         what that file names
  toolbus replay all.jsonl --with policy.toml          the rules of a policy
  toolbus replay all.jsonl                             what is in force here
  toolbus replay --with policy.py                      coding agents' sessions
  toolbus replay ~/.claude/projects --with policy.py   sessions of Claude Code
  toolbus replay a.jsonl --with policy.py --check expected.json --update
  toolbus replay a.jsonl --with policy.py --check expected.json

No model and no tool is called: recorded calls pass TOOL_CALL_BEFORE, recorded
messages MESSAGE_APPEND_BEFORE. Handlers are those of an agent, a bus, a
component or of what a function makes; without --with those of your own
toolbus.toml and of the nearest one, if you trust it (`toolbus trust`).
What is asked is taken as approved. A verdict on a call whose recorded arguments
have names of hidden values is "unjudged", and a person's no is "refused".
It ends with 1 if something cannot be read or the expectation does not hold."""


def command() -> Command:
    """Return the parser and what to do."""
    parser = make_parser("toolbus replay", "Run recorded sessions through other handlers.", _EPILOG)
    _add_arguments(parser)

    def run(parsed: argparse.Namespace, output: Output) -> int:
        from toolbus.replay.replay import ReplayOptions, run_replay  # noqa: PLC0415 - loads the whole house

        if parsed.update and not parsed.check:
            parser.error("--update needs --check FILE")
        options = ReplayOptions(
            format=parsed.format,
            session=parsed.session,
            line_limit=parsed.max_line * 2**20,
            limit=None if parsed.all else 100,
            as_json=parsed.json,
            check=parsed.check,
            update=parsed.update,
            folder="" if parsed.folder is None else os.path.realpath(parsed.folder),
        )
        sources = [store_address(source) for source in parsed.sources or [None]]
        return run_replay(output, sources, parsed.target, options)

    return parser, run


def _add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "sources", metavar="SOURCE", nargs="*", help="files, folders, stores, hooks or -"
    )
    parser.add_argument(
        "--with",
        dest="target",
        metavar="FILE",
        help="the handlers: a toolbus.toml, a policy or FILE.py[:name]; else what is in force here",
    )
    parser.add_argument(
        "--format", metavar="NAME", choices=_FORMATS, help=f"of the sources: {', '.join(_FORMATS)}"
    )
    parser.add_argument("--session", metavar="ID", help="only this session")
    parser.add_argument(
        "--folder", metavar="DIR", type=Path, help="where sessions began that do not say it"
    )
    parser.add_argument("--all", action="store_true", help="print more than 100 findings")
    parser.add_argument("--json", action="store_true", help="write one JSON document")
    parser.add_argument("--check", type=Path, metavar="FILE", help="compare with an expectation")
    parser.add_argument("--update", action="store_true", help="write the expectation instead")
    parser.add_argument(
        "--max-line", type=megabytes, default=16, metavar="MB", help="longest line (16)"
    )
