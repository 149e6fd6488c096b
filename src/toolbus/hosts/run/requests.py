"""The settings of an installed client, its requests, and the encoding of answers to it."""

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
"""The file in `state_folder()` that stores the sessions of all hosts."""

LIMIT = 20.0
"""The time limit of an event in seconds: every host waits at least 30 s."""

MAX_HEADER = 2**16
_MAX_DIGITS = 20
_FIELDS = 6
_ANSWER_MARGIN = 0.9
"""The fraction of the client's time after which an event is blocked, so that the reason arrives."""


class HookSettings(Struct, frozen=True, kw_only=True):
    """The settings for answering a host's events; none comes from the environment.

    Args:
        config: the configuration named at the installation; None: the user's own, followed by the
            trusted one of the project in which the session began.
        store: the SQLite file of all sessions.
        limit: seconds after which an event is blocked.
        required: the configuration that was active at the installation, if any: once it names no
            component, every event is blocked.
    """

    config: str | None = None
    store: Path
    limit: float = LIMIT
    required: str | None = None


class HookRequest(Struct, frozen=True, kw_only=True):
    """The header of a client's event, whose JSON has *size* bytes.

    *folder* is the client's working folder. A retry of an event has the same *event_id*, followed
    by `hook_client.AGAIN`.
    """

    digest: bytes
    host: str
    name: str
    event_id: str
    folder: Path
    size: int


def default_store() -> Path:
    """Return the default store of sessions; raises `RuntimeError` without a home folder."""
    return state_folder() / STORE


def hook_settings(settings: hook_client.Settings) -> HookSettings:
    """Return the part of a client's *settings* that applies to events."""

    def value(key: bytes) -> str | None:
        return os.fsdecode(settings[key][0]) if key in settings else None

    return HookSettings(
        config=value(b"config"),
        required=value(b"required"),
        store=Path(os.fsdecode(settings[b"store"][0])),
        limit=float(settings[b"limit"][0]) * _ANSWER_MARGIN,
    )


def decode_header(data: bytes) -> HookRequest:
    """Return the request in *data*, the header without its length; raises `DecodeError`."""
    protocol, *fields = data.split(b"\0")
    if protocol != hook_client.PROTOCOL or len(fields) != _FIELDS or not fields[5].isdigit():
        raise DecodeError("the header is not of this version")
    digest, *names, folder, size = fields
    if len(size) > _MAX_DIGITS or int(size) > hook_client.MAX_INPUT:
        raise DecodeError("the event is longer than a client sends")
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
    """Return *answer* in the client's format: kind, exit code, two lengths, two texts."""
    sizes = [len(each).to_bytes(4, "big") for each in (answer.stdout, answer.stderr)]
    head = hook_client.ANSWER + bytes([answer.exit_code])
    return b"".join([head, *sizes, answer.stdout, answer.stderr])


def encode_moved(folder: Path) -> bytes:
    """Return the reply that redirects a client to the worker of *folder*."""
    name = os.fsencode(folder)
    return hook_client.MOVED + len(name).to_bytes(4, "big") + name
