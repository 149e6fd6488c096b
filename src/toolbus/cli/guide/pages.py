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
    from collections.abc import Sequence

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
            return print_topics(output, as_json=parsed.json)
        names = TOPICS if parsed.all else (parsed.topic,)
        return print_pages(output, names, as_json=parsed.json, pager=not parsed.no_pager)

    return parser, run


def print_topics(output: Output, *, as_json: bool = False) -> int:
    """Print the topics with their summaries; return the exit code."""
    if as_json:
        for name in TOPICS:
            _write_record(output, read_page(name), whole=False)
        return 0
    screen = open_screen(output)
    for title, names in GROUPS:
        screen.line(Span(title, "strong"))
        for name in names:
            # In a pipe a topic is one line, so that grep finds it whole.
            _write_topic(screen, read_page(name), wraps=output.is_terminal)
        screen.line()
    screen.prose("`toolbus guide TOPIC` prints a page, `toolbus guide --all` all of them.")
    return 0


def print_pages(
    output: Output, names: Sequence[str], *, as_json: bool = False, pager: bool = True
) -> int:
    """Print the pages of *names*: formatted on a terminal, elsewhere the Markdown itself.

    Raises `UsageError` for an unknown name, before anything is printed.
    """
    pages = [read_page(name) for name in names]
    if as_json:
        for page in pages:
            _write_record(output, page, whole=True)
    elif output.is_terminal:
        with paged(output, wanted=pager) as through:
            screen = open_screen(through)
            write_markdown(screen, "\n".join([page.text for page in pages]))
    else:
        output.write("\n".join([page.text for page in pages]))
    return 0


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
