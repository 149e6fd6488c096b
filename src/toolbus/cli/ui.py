"""`toolbus ui`: the sessions of a store as a page in the browser, until Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import threading
import webbrowser
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from toolbus.approvals.question_lookup import read_times
from toolbus.cli.options import STORE_HELP, store_address
from toolbus.cli.parser import make_parser, whole_number
from toolbus.config.targets import load
from toolbus.history.session_index import SessionIndex, following
from toolbus.presence.answer_code import reader_of_terminal
from toolbus.presence.person import NotInteractiveError, PersonTerminal, person_terminal
from toolbus.redaction.placeholders import kinds_in
from toolbus.settings.extras import needs_extra
from toolbus.settings.private_files import write_private
from toolbus.settings.usage_error import UsageError
from toolbus.store.store_factory import open_reader

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command
    from toolbus.ui.locks import UiLocks

_EPILOG = """\
examples:
  toolbus ui                         the sessions of coding agents
  toolbus ui agent.db                those of a store
  toolbus ui agent.db --with policy.toml     to replay them past other rules
  toolbus ui agent.db --no-open --port 8421  on another machine, behind
                                     ssh -L 8421:127.0.0.1:8421 MACHINE

A link logs in one browser within five minutes; Enter prints a new one. The
page asks for the answer code with an answer to a question: programs that read
your files and cookies do not see it, for it is on this terminal only. Without
a terminal, and below an agent, the page only reads."""

_LAST_PORT = 65_535
_REDIRECT = """\
<!doctype html><meta charset="utf-8"><title>toolbus</title>
<meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0; url={link}">
<p><a href="{link}">Open the sessions</a></p>
"""
_WARNING = """\
A model's shell can read this terminal by {reader}:
to be sure of your answers, run this in another one.
"""
_SHOWN = """\
The page:
  {link}
If the browser does not find it, for reading only:
  {numeric}
The answer code, for the page alone: {code}
Enter prints a new link; Ctrl-C ends.
"""


class _PageEntry(NamedTuple):
    """The way to the page: its *locks*, a private *file* for the browser, and the *terminal*."""

    locks: UiLocks
    file: Path
    terminal: PersonTerminal | None

    def renew(self) -> None:
        """Write a new link into the file, and with the answer code on the terminal."""
        link, numeric = self.locks.new_links()
        write_private(self.file, _REDIRECT.format(link=link).encode())
        if self.terminal is not None:
            code = self.locks.answer_lock.show()
            if reader := reader_of_terminal(os.environ):
                self.terminal.write(_WARNING.format(reader=reader))
            self.terminal.write(_SHOWN.format(link=link, numeric=numeric, code=code))

    def read_line(self, terminal: PersonTerminal, stop: Callable[[], None]) -> None:
        """Renew the link at Enter; *stop* at the end of input."""
        with suppress(OSError):  # The terminal is gone.
            if terminal.read_line() is not None:
                return self.renew()
        return stop()


def command() -> Command:
    """Return the parser and the body of the command."""
    parser = make_parser("toolbus ui", "Show the sessions of a store in the browser.", _EPILOG)
    parser.add_argument("store", metavar="STORE", nargs="?", help=STORE_HELP)
    about = "handlers for replays: a toolbus.toml, a policy or FILE.py[:name]; repeatable"
    parser.add_argument("--with", dest="targets", metavar="FILE", action="append", help=about)
    port = whole_number("a port from 1 to 65535")
    parser.add_argument("--port", type=port, default=0, help="default: a free port")
    parser.add_argument("--no-open", action="store_true", help="do not open the browser")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        if parsed.port > _LAST_PORT:
            parser.error(f"argument --port: expected a port from 1 to 65535, got {parsed.port}")
        with ExitStack() as stack:
            _show_page(parsed, output, stack)
        if threading.active_count() > 1:
            sys.stdout.flush()
            os._exit(0)  # The end does not wait for a replay that is still running.
        return 0

    return parser, run


def _show_page(parsed: argparse.Namespace, output: Output, stack: ExitStack) -> None:
    """Serve the page until a signal, or the end of the terminal's input."""
    try:
        from toolbus.ui import app, locks, server, state  # noqa: PLC0415 - an extra's libraries
    except ImportError as error:
        raise UsageError(needs_extra(f"the page needs {error.name}", "ui")) from error
    address = store_address(parsed.store)
    open_reader(address).close()  # A store or target that cannot be read is an error at once.
    targets = {load(target).target: target for target in parsed.targets or ()}
    terminal, no_answers = None, ""
    try:
        terminal = stack.enter_context(person_terminal())
    except NotInteractiveError as error:
        no_answers = f"answers need a person at the terminal of `toolbus ui`: {error.reason}"
    sockets = server.listen_on_loopback(parsed.port)
    ours = locks.UiLocks(sockets[0].getsockname()[1], no_answers=no_answers)
    sessions = SessionIndex(kinds_in, read_times)
    page = server.make_server(app.make_app(state.UiState(address, ours, sessions, targets)))

    def stop(*_: object) -> None:
        page.should_exit = True

    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="toolbus-ui-"))
    entry = _PageEntry(ours, Path(folder) / "open.html", terminal)
    entry.renew()
    stack.enter_context(following(address, sessions))
    runner = stack.enter_context(asyncio.Runner())
    if terminal is None:
        output.write(f"to log in, open {entry.file} in a browser\n")
        output.write(f"the page only reads: {no_answers}\n")
    else:
        runner.get_loop().add_reader(terminal.fileno(), entry.read_line, terminal, stop)
    # Without a display it would be a browser that takes the terminal over.
    names = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    if not parsed.no_open and (sys.platform == "darwin" or any(map(os.environ.get, names))):
        threading.Thread(target=webbrowser.open, args=[entry.file.as_uri()], daemon=True).start()
    runner.run(page.serve(sockets=sockets))
