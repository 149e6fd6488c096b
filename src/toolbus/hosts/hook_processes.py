"""What a hook's client starts: a worker, or a child that answers one event.

Both have the environment that the client's settings name, and no other.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.hosts.run import hook_client
from toolbus.hosts.run.answering import answer
from toolbus.hosts.run.hook_requests import decode_header, encode_answer, hook_settings, work_in

if TYPE_CHECKING:
    from io import FileIO


def main(words: list[str]) -> None:
    """Run `SETTINGS answer` or `SETTINGS serve FOLDER HOST`."""
    os.umask(0o077)
    # What is in our memory is not to be in a file when we crash.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    settings = hook_client.read_settings(words[0])
    # What the host's other programs left open is not held open by us; 3 is a worker's lock.
    os.closerange(4 if words[1] == "serve" else 3, 1024)
    if words[1] == "serve":
        from toolbus.hosts.run.serving import serve  # noqa: PLC0415 - a child does without

        serve(Path(words[0]), settings, Path(words[2]), words[3])
    else:
        _answer_one(settings)


def _answer_one(settings: hook_client.Settings) -> None:
    """Answer the event that comes through the socket which is our standard input."""
    gc.disable()  # What it holds is gone with it, soon.
    # A client that was killed cannot kill us.
    signal.setitimer(signal.ITIMER_REAL, float(settings[b"limit"][0]))
    with open(os.dup(0), "r+b", buffering=0) as link:  # noqa: PTH123 - a descriptor, no path
        os.dup2(1, 0)  # What components start or read has no part in it.
        _write(link, hook_client.TAKEN)
        request = decode_header(_read(link, int.from_bytes(_read(link, 4), "big")))
        data = _read(link, request.size)
        work_in(request.folder)
        made = answer(request.host, request.name, data, hook_settings(settings), request.event_id)
        _write(link, encode_answer(made))
    os._exit(0)  # Nobody waits for what else an end does.


def _read(link: FileIO, size: int) -> bytes:
    data = b""
    while len(data) < size:
        if not (part := link.read(size - len(data))):
            raise EOFError
        data += part
    return data


def _write(link: FileIO, data: bytes) -> None:
    while data:
        data = data[link.write(data) or 0 :]
