"""`toolbus guide`: the list of topics, one page, or all pages."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING

from toolbus.cli.guide.layout import write_markdown
from toolbus.cli.guide.topics import GROUPS, TOPICS, GuidePage, read_page
from toolbus.cli.output.pager import paged
from toolbus.cli.output.screen import open_screen
from toolbus.cli.parser import make_parser
from toolbus.settings.spans import Span

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.output.screen import Screen
    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command


_EPILOG = """\
examples:
  toolbus guide                      the topics, in the order to learn them
  toolbus guide first-agent          the page of one topic
  toolbus guide first-agent > a.md   its Markdown
  toolbus guide --all | less         all pages

The code of a page is run by a test, and prints what the page shows."""


def command() -> Command:
    """Return the parser and the function to run."""
    parser = make_parser("toolbus guide", "Print a page of the guide.", _EPILOG)
    parser.add_argument(
        "topic",
        metavar="TOPIC",
        nargs="?",
        help="the page to print; without it, the list of topics",
    )
    parser.add_argument("--all", action="store_true", help="print all pages")
    parser.add_argument("--json", action="store_true", help="write one JSON object a line")
    parser.add_argument("--no-pager", action="store_true", help="write all at once")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        if parsed.all and parsed.topic is not None:
            parser.error(f"--all includes {parsed.topic!r}; give one of the two")
        if parsed.topic is None and not parsed.all:
            _print_topics(output, as_json=parsed.json)
        else:
            _print_pages(output, parsed)
        return 0

    return parser, run


def _print_topics(output: Output, *, as_json: bool) -> None:
    """Print the topics with their summaries."""
    if as_json:
        for name in TOPICS:
            _write_record(output, read_page(name), whole=False)
        return
    screen = open_screen(output)
    for title, names in GROUPS:
        screen.line(Span(title, "strong"))
        for name in names:
            # In a pipe a topic is one line, so that grep finds it whole.
            _write_topic(screen, read_page(name), wraps=output.is_terminal)
        screen.line()
    screen.prose("`toolbus guide TOPIC` prints a page, `toolbus guide --all` all of them.")


def _print_pages(output: Output, parsed: argparse.Namespace) -> None:
    """Print one page or all: formatted on a terminal, elsewhere the Markdown itself.

    Raises `UsageError` for an unknown name, before anything is printed.
    """
    pages = [read_page(name) for name in (TOPICS if parsed.all else [parsed.topic])]
    text = "\n".join([page.text for page in pages])
    if parsed.json:
        for page in pages:
            _write_record(output, page, whole=True)
    elif output.is_terminal:
        with paged(output, wanted=not parsed.no_pager) as through:
            write_markdown(open_screen(through), text)
    else:
        output.write(text)


def _write_topic(screen: Screen, page: GuidePage, *, wraps: bool) -> None:
    start = "  " + page.name.ljust(max(map(len, TOPICS)) + 2)
    space = screen.width - len(start)
    first, *others = textwrap.wrap(page.summary, space) if wraps else [page.summary]
    screen.whole(start + first)
    for line in others:
        screen.whole(" " * len(start) + line)


def _write_record(output: Output, page: GuidePage, *, whole: bool) -> None:
    record = {"topic": page.name, "title": page.title, "summary": page.summary}
    output.write(json.dumps(record | ({"text": page.text} if whole else {})) + "\n")
