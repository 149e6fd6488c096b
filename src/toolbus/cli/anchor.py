"""`toolbus anchor`: the heads of a store's chains, signed, to a file or to a webhook."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.approvals.webhook_signatures import WebhookSecret
from toolbus.cli.options import KEY_HELP, STORE_HELP, store_address, store_key
from toolbus.cli.output.blocks import count_things, print_json
from toolbus.cli.output.screen import open_screen
from toolbus.cli.output.stream import Output, busy_line
from toolbus.cli.parser import make_parser, positive
from toolbus.errors import ToolbusError, WrongPathError
from toolbus.settings.spans import sanitize
from toolbus.settings.usage_error import UsageError
from toolbus.store.check.anchors import Anchor, AnchorList, extend_file, signature_of
from toolbus.store.check.chain_check import read_heads
from toolbus.store.store_factory import is_postgres, open_reader

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable

    from toolbus.cli.parser import Command

_EPILOG = """\
examples:
  toolbus anchor agent.db --to ~/.local/state/toolbus/anchors.jsonl
  toolbus anchor agent.db --to FILE --every 100      stay, and go on
  toolbus anchor agent.db --to https://example.com/anchors --key anchor.key
  toolbus check agent.db --chain --anchor FILE       compare them later

A line has the heads of the chains that changed, by random names instead of
session ids, and a signature that covers the line before. Keep it where writers
of the store cannot write. A webhook gets each line by POST, and needs the extra
toolbus[http]. Nothing is checked before it is signed: see `toolbus check`.

--every N adds a line after N more messages and records, counted each second,
and a last one at SIGTERM or Ctrl-C. `toolbus guide chain` has what is proven."""

_PAUSE, _AFTER_FAILURE, _SECONDS = 1.0, 5.0, 20.0


def command() -> Command:
    """Return the parser and the body of the command."""
    parser = make_parser("toolbus anchor", "Sign the heads of a store's chains.", _EPILOG)
    parser.add_argument("store", metavar="STORE", nargs="?", help=STORE_HELP)
    parser.add_argument("--to", metavar="FILE|URL", required=True, help="the list, or a webhook")
    parser.add_argument("--every", metavar="N", type=positive, help="stay; see below")
    parser.add_argument("--key", metavar="KEY", help=KEY_HELP)
    parser.add_argument("--json", action="store_true", help="write a JSON object for each line")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        is_webhook = "://" in parsed.to
        if is_webhook and not parsed.to.lower().startswith(("http://", "https://")):
            parser.error("--to needs a file, or an address with https://")
        if is_webhook and parsed.key is None:
            parser.error("a webhook needs --key: its receiver has the key, too")
        address, key = store_address(parsed.store), store_key(parsed.key)
        anchors = AnchorList(key)
        report = partial(_report, output, anchors, as_json=parsed.json)

        async def append(now: Anchor) -> None:
            await asyncio.to_thread(extend_file, Path(parsed.to), anchors, now)
            report(now)

        send = _webhook(parsed.to, key, anchors, report) if is_webhook else append
        asyncio.run(_anchor(address, send, parsed.every or 0))
        return 0

    return parser, run


def _read(address: str) -> tuple[Anchor, int]:
    """Return the heads in the store at *address*, and its number of messages and records."""
    # Opened each time: the file may have been replaced.
    with busy_line("reading heads"), open_reader(address, live=True) as reader, reader.snapshot():
        sessions = list(read_heads(reader))
        gone = tuple([name for name, _, _ in read_heads(reader, forgotten=True)])
    anchor = Anchor(
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        store="PostgreSQL" if is_postgres(address) else Path(address).name,
        chains={name: heads for name, heads, _ in sessions if name},
        forgotten=gone,
    )
    return anchor, sum([count for _, _, count in sessions])


async def _anchor(address: str, send: Callable[[Anchor], Awaitable[None]], every: int) -> None:
    """Send a line, and unless *every* is 0 more of them until a signal, and a last one."""
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM) if every else ():
        loop.add_signal_handler(number, ended.set)
    anchored, pause, is_last = inf, 0.0, False
    while not is_last:
        with suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), pause)
        started, is_last = loop.time(), not every or ended.is_set()
        try:
            now, count = await asyncio.to_thread(_read, address)
            # The reading of a large store takes at most a twentieth of the time.
            pause = max(_PAUSE, 20 * (loop.time() - started))
            # Fewer are left after a deletion, which is anchored at once.
            if is_last or not anchored <= count < anchored + every:
                await send(now)
                anchored = count
        except ToolbusError as error:
            if is_last or isinstance(error, WrongPathError):
                raise
            pause = _AFTER_FAILURE
            text = sanitize(f"toolbus: {error}; the next attempt is in {pause:g} seconds")
            Output(sys.stderr).write(f"{text}\n")


def _webhook(
    address: str, key: bytes, anchors: AnchorList, report: Callable[[Anchor], None]
) -> Callable[[Anchor], Awaitable[None]]:
    """Return a function that sends the next line of *anchors* to the webhook at *address*."""
    try:
        from toolbus.approvals.webhook import post_signed, read_webhook_url  # noqa: PLC0415 - an extra
    except ImportError as error:  # Of the extra.
        raise UsageError(str(error)) from error
    url, secret, waiting = read_webhook_url(address), WebhookSecret(key), list[bytes]()

    async def send(now: Anchor) -> None:
        # A line that may have arrived is repeated unchanged; the receiver knows it by its id.
        is_new = False
        while not is_new:
            is_new = not waiting
            waiting[:] = waiting or [anchors.next_line(now)]
            (line,) = waiting
            await post_signed(url, secret, f"anchor_{signature_of(line)}", line, seconds=_SECONDS)
            anchors.take(line)
            waiting.clear()
            report(now)

    return send


def _report(output: Output, anchors: AnchorList, now: Anchor, *, as_json: bool) -> None:
    newest, signature = anchors.newest, anchors.signature
    facts = {"line": anchors.lines, "time": newest.time, "signature": signature}
    changed, gone = len(newest.chains), len(newest.forgotten)
    if as_json:
        print_json(output, {**facts, "chains": changed, "forgotten": gone})
    else:
        counts = f"{count_things(changed, 'changed chain')}, {gone:,} forgotten"
        text = f"line {anchors.lines:,}: {counts}, signature {signature}"
        open_screen(output).whole(text)
    if missing := anchors.heads.keys() - {*now.chains, *now.forgotten, *anchors.forgotten}:
        text = f"{count_things(len(missing), 'anchored chain')} not in the store, and not forgotten"
        Output(sys.stderr).write(f"warning: {text}; run `toolbus check --chain --anchor`\n")
