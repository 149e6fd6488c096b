"""What a hook's client writes to who answers an event, and what it reads back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.errors import DecodeError
from toolbus.hosts.run import hook_client
from toolbus.hosts.run.hook_settings import HookSettings

if TYPE_CHECKING:
    from toolbus.hosts.dialects.hook_events import HookAnswer

MAX_HEADER = 2**16
_MAX_DIGITS = 20
_ANSWER_MARGIN = 0.9
"""The part of the client's time after which an event is blocked, so that it still hears why."""


class HookRequest(Struct, frozen=True, kw_only=True):
    """What stands before an event's JSON, which has *size* bytes.

    *folder* is the client's working folder; the other names are those of `answering.answer`.
    """

    digest: bytes
    host: str
    name: str
    event_id: str
    folder: Path
    size: int


def decode_header(data: bytes) -> HookRequest:
    """Return what *data* says, without its length before it; raises `DecodeError`."""
    protocol, *fields = data.split(b"\0")
    if protocol != hook_client.PROTOCOL or len(fields) != 6 or not fields[5].isdigit():  # noqa: PLR2004
        raise DecodeError("no header of this version")
    digest, *names, folder, size = fields
    if len(size) > _MAX_DIGITS or int(size) > hook_client.MAX_INPUT:
        raise DecodeError("a longer event than any client sends")
    host, name, event_id = [os.fsdecode(each) for each in names]
    return HookRequest(
        digest=digest,
        host=host,
        name=name,
        event_id=event_id,
        folder=Path(os.fsdecode(folder)),
        size=int(size),
    )


def encode_answer(answer: HookAnswer) -> bytes:
    """Return *answer* as a client reads it: kind, exit code, two lengths, two texts."""
    sizes = [len(each).to_bytes(4, "big") for each in (answer.stdout, answer.stderr)]
    head = hook_client.ANSWER + bytes([answer.exit_code])
    return b"".join([head, *sizes, answer.stdout, answer.stderr])


def encode_moved(folder: Path) -> bytes:
    """Return that the worker of *folder* is to be asked."""
    name = os.fsencode(folder)
    return hook_client.MOVED + len(name).to_bytes(4, "big") + name


def hook_settings(settings: hook_client.Settings) -> HookSettings:
    """Return what of a client's *settings* decides about events."""

    def value(key: bytes) -> str | None:
        return os.fsdecode(settings[key][0]) if key in settings else None

    return HookSettings(
        config=value(b"config"),
        required=value(b"required"),
        store=Path(os.fsdecode(settings[b"store"][0])),
        limit=float(settings[b"limit"][0]) * _ANSWER_MARGIN,
    )


def work_in(folder: Path) -> None:
    """Make *folder* the working folder, or the root if it cannot be entered."""
    try:
        os.chdir(folder)
    except OSError:
        os.chdir("/")
