"""`toolbus guide`: how to do things, a page a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.cli.parsing import make_parser

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.parsing import Command
    from toolbus.terminal.output import Output

_EPILOG = """\
examples:
  toolbus guide                      the topics, in the order to learn them
  toolbus guide first-agent          the page of one topic
  toolbus guide first-agent > a.md   its Markdown
  toolbus guide --all | less         all pages

What a page shows as code was run, and printed what the page says."""


def command() -> Command:
    """Return the parser and what to do."""
    parser = make_parser("toolbus guide", "Tell how to do things, a page a topic.", _EPILOG)
    parser.add_argument("topic", metavar="TOPIC", nargs="?", help="its page; else the topics")
    parser.add_argument("--all", action="store_true", help="print all pages")
    parser.add_argument("--json", action="store_true", help="write one JSON object a line")
    parser.add_argument("--no-pager", action="store_true", help="write all at once")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        from toolbus.guide.printing import print_pages, print_topics  # noqa: PLC0415 - when asked
        from toolbus.guide.topics import TOPICS  # noqa: PLC0415

        if parsed.all and parsed.topic is not None:
            parser.error(f"--all prints {parsed.topic!r}, too; give one of the two")
        if parsed.topic is None and not parsed.all:
            return print_topics(output, as_json=parsed.json)
        names = TOPICS if parsed.all else (parsed.topic,)
        return print_pages(output, names, as_json=parsed.json, pager=not parsed.no_pager)

    return parser, run
