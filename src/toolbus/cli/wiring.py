"""`toolbus wiring`: print who handles what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.cli.parsing import make_parser

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.parsing import Command
    from toolbus.terminal.output import Output

_EPILOG = """\
examples:
  toolbus wiring                     what your configurations name
  toolbus wiring --config our.toml   what our.toml names
  toolbus wiring agent.py            the only agent, bus or component there
  toolbus wiring agent.py:bus        what is called bus there
  toolbus wiring agent.py:make       what the function make returns
  toolbus wiring agent.py --json     one JSON document

The file is run as `import` runs it. A component, or its class, is installed
on an empty bus.
Without a target it is your own toolbus.toml, in ~/.config/toolbus, and behind
it the nearest one, or [tool.toolbus] of a pyproject.toml, from this folder up
to the root of the repository, if you trust it: `toolbus trust`."""


def command() -> Command:
    """Return the parser and what to do."""
    parser = make_parser(
        "toolbus wiring", "Print who handles what, in the order in which they run.", _EPILOG
    )
    parser.add_argument(
        "target", metavar="FILE.py[:name]", nargs="?", help="an agent, a bus or a component"
    )
    parser.add_argument("--config", metavar="FILE", help="a configuration, in place of a target")
    parser.add_argument("--json", action="store_true", help="write one JSON document")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        from toolbus.inspect.handlers import show_wiring  # noqa: PLC0415 - loads the whole house

        if parsed.target and parsed.config:
            parser.error("give a target or --config, not both")
        return show_wiring(output, parsed.target, config=parsed.config, as_json=parsed.json)

    return parser, run
