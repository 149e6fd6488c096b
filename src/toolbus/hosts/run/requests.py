"""The settings of an installed client, its requests, and the answers that it reads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.errors import DecodeError
from toolbus.hosts.run import hook_client
from toolbus.settings.user_folders import state_folder

if TYPE_CHECKING:
    from toolbus.hosts.dialects.hook_events import HookAnswer

STORE = "hooks.db"
"""The file in `state_folder()` where all hosts' sessions are kept."""

LIMIT = 20.0
"""Seconds that an event may take: all hosts wait longer, the least of them 30 s."""

MAX_HEADER = 2**16
_MAX_DIGITS = 20
_FIELDS = 6
_ANSWER_MARGIN = 0.9
"""The part of the client's time after which an event is blocked, so that it still hears why."""


class HookSettings(Struct, frozen=True, kw_only=True):
    """The settings by which a host's events are answered; none comes from the environment.

    Args:
        config: the configuration that was named; None: the user's own and, behind it, that of the
            project in which a session began, if it is trusted.
        store: the SQLite file of all sessions.
        limit: seconds that an event may take; then it is blocked.
        required: the configuration that was in force at the installation, if any: once it names no
            component, every event is blocked.
    """

    config: str | None = None
    store: Path
    limit: float = LIMIT
    required: str | None = None


class HookRequest(Struct, frozen=True, kw_only=True):
    """The header of a client's event, whose JSON has *size* bytes.

    *folder* is the client's working folder. *event_id* is the same for an event that is handled
    once more, with `hook_client.AGAIN` behind it.
    """

    digest: bytes
    host: str
    name: str
    event_id: str
    folder: Path
    size: int


def default_store() -> Path:
    """Return where sessions are kept by default; raises `RuntimeError` without a home folder."""
    return state_folder() / STORE


def hook_settings(settings: hook_client.Settings) -> HookSettings:
    """Return the part of a client's *settings* that decides about events."""

    def value(key: bytes) -> str | None:
        return os.fsdecode(settings[key][0]) if key in settings else None

    return HookSettings(
        config=value(b"config"),
        required=value(b"required"),
        store=Path(os.fsdecode(settings[b"store"][0])),
        limit=float(settings[b"limit"][0]) * _ANSWER_MARGIN,
    )


def decode_header(data: bytes) -> HookRequest:
    """Return the request in *data*, without its length before it; raises `DecodeError`."""
    protocol, *fields = data.split(b"\0")
    if protocol != hook_client.PROTOCOL or len(fields) != _FIELDS or not fields[5].isdigit():
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
    """Return the words by which a client is sent to the worker of *folder*."""
    name = os.fsencode(folder)
    return hook_client.MOVED + len(name).to_bytes(4, "big") + name
