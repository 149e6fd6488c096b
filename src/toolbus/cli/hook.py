"""`toolbus hook`: answer one event of a coding agent's hooks."""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from toolbus.cli.parsing import make_parser, seconds

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.parsing import Command
    from toolbus.hosts.dialects.hook_events import HookAnswer
    from toolbus.terminal.output import Output

_EPILOG = """\
examples:
  toolbus hook claude-code PreToolUse < event.json    what Claude Code would
                                                      be told
  toolbus hook gemini-cli AfterTool --config rules.toml < event.json
  toolbus hook codex PreToolUse --store try.db < event.json

It reads the JSON of one event from standard input, and answers in the host's
words. Your own toolbus.toml is in force, and that of the project in which the
session began, if you trust it. Whatever fails is answered by the host's block:
garbage, a broken configuration, a full disk, an event that takes longer than
--limit. What handlers print goes nowhere: a host keeps the output of its hooks.
The sessions are in the store: toolbus sessions, show, explain, export, replay.
`toolbus hosts install HOST` writes a faster one into a host's settings."""

_BLOCK = 2**20
_GRACE = 1.0
"""Seconds beyond the limit for code that stands still, and for observers of an answered event."""


def command() -> Command:
    """Return the parser and what to do."""
    summary = "Answer one event of a coding agent's hooks."
    parser = make_parser("toolbus hook", summary, _EPILOG)
    parser.add_argument("host", metavar="HOST", help="claude-code, codex, gemini-cli, ...")
    parser.add_argument("event", metavar="EVENT", help="what the host calls it: PreToolUse, ...")
    parser.add_argument("--config", metavar="FILE", help="this configuration, and no other")
    parser.add_argument(
        "--store",
        metavar="FILE",
        help="keep sessions there, not in the state folder",
    )
    parser.add_argument(
        "--limit", metavar="SECONDS", type=seconds, help="that an event may take (20)"
    )

    def run(parsed: argparse.Namespace, _: Output) -> int:
        try:
            for each in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
                signal.signal(each, _stop)
            from toolbus.hosts.run.reading import MAX_BYTES  # noqa: PLC0415 - not to read the help
            from toolbus.hosts.run.requests import LIMIT  # noqa: PLC0415 - as above

            limit = parsed.limit or LIMIT
            # First of all: where it is closed, the next file that is opened would take its place.
            data = _read(MAX_BYTES + 1, limit)
            outputs = [os.dup(1), os.dup(2)]
            # What code of others prints may hold what the model must not read.
            nothing = os.open(os.devnull, os.O_WRONLY)
            for number in (1, 2):
                os.dup2(nothing, number)
            host = _WaitingHost(parsed.host, parsed.event, outputs)
            host.wait(data, limit)
            host.write_answer(_answer(parsed, data, limit, host))
        except Exception:  # noqa: BLE001 - nobody reads the answer
            _stop()
        # What hangs in a thread would be waited for.
        os._exit(host.exit_code)

    return parser, run


class _WaitingHost:
    """The host that waits for its answer: it is told once, and soon after the time is over."""

    def __init__(self, name: str, event: str, outputs: list[int]) -> None:
        self._name, self._event, self._outputs = name, event, outputs
        self._is_told, self.exit_code = False, 2

    def wait(self, data: bytes | None, limit: float) -> None:
        """Tell the block of the event in *data* soon after *limit* seconds, whatever hangs then."""

        def end(*_: object) -> NoReturn:
            from toolbus.errors import DeadlineError  # noqa: PLC0415 - for few
            from toolbus.hosts.run.reading import block_of  # noqa: PLC0415 - as above

            self.write_answer(
                block_of(self._name, self._event, data or b"", str(DeadlineError(limit)))
            )
            os._exit(self.exit_code)

        signal.signal(signal.SIGALRM, end)
        signal.setitimer(signal.ITIMER_REAL, limit + _GRACE)

    def write_answer(self, made: HookAnswer) -> None:
        """Write *made*, unless an answer was told."""
        if self._is_told:
            return
        self._is_told = True
        for number, data in zip(self._outputs, (made.stdout, made.stderr), strict=True):
            _write(number, data)
        self.exit_code = made.exit_code


def _stop(*_: object) -> NoReturn:
    os._exit(2)  # By this code most hosts stop.


def _answer(
    parsed: argparse.Namespace, data: bytes | None, limit: float, host: _WaitingHost
) -> HookAnswer:
    from toolbus.hosts.run.answering import answer  # noqa: PLC0415 - as above
    from toolbus.hosts.run.reading import block_of  # noqa: PLC0415
    from toolbus.hosts.run.requests import HookSettings, default_store  # noqa: PLC0415

    if data is None:
        return block_of(parsed.host, parsed.event, b"", "the event did not come to its end in time")
    try:
        store = Path(parsed.store).absolute() if parsed.store else default_store()
        config = None if parsed.config is None else str(Path(parsed.config).absolute())
    except (OSError, RuntimeError):
        return block_of(parsed.host, parsed.event, data, "there is no home or no working folder")
    settings = HookSettings(config=config, store=store, limit=limit)
    return answer(parsed.host, parsed.event, data, settings, on_answer=host.write_answer)


def _read(limit_bytes: int, seconds_left: float) -> bytes | None:
    """Return at most so many bytes of standard input, None if it has no end in so many seconds."""
    parts: list[bytes] = []
    end = time.monotonic() + seconds_left
    with suppress(OSError, ValueError):  # Of a closed one.
        while (size := sum(map(len, parts))) < limit_bytes:
            if not select.select([0], [], [], max(0.0, end - time.monotonic()))[0]:
                break
            if not (read := os.read(0, min(_BLOCK, limit_bytes - size))):
                return b"".join(parts)
            parts.append(read)
        else:
            return b"".join(parts)
    return None


def _write(number: int, data: bytes) -> None:
    while data:
        data = data[os.write(number, data) :]
