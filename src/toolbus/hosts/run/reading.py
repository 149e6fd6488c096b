"""An event of a host as its dialect reads it, and the host's block for what cannot be answered."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.errors import (
    DeadlineError,
    DecodeError,
    FreezeError,
    LoadError,
    RegistrationError,
    StoreError,
    ToolbusError,
)
from toolbus.hosts.dialects import dialect
from toolbus.hosts.dialects.hook_events import HookAnswer
from toolbus.hosts.run.payloads import read_payload
from toolbus.settings.spans import sanitize
from toolbus.toml.values import MisfitError

if TYPE_CHECKING:
    from toolbus.hosts.dialects.hook_events import HookEvent, HostDialect

_WORDED = (DeadlineError, DecodeError, FreezeError, LoadError, RegistrationError, StoreError)
"""Errors whose text is ours: what another one says may quote anything."""

_OURS = (ToolbusError, MisfitError, OSError, ImportError, SyntaxError)
"""Errors that are no secret's place, where they are why one of ours was raised."""

_LONGEST = 2_000
_STOPPED = 2
"""The exit code by which most hosts stop, for what no dialect could word."""


class ReadEvent(NamedTuple):
    """An *event* as *dialect* read it; *payload* is the JSON of it."""

    dialect: HostDialect
    payload: dict[str, Any]
    event: HookEvent


def read_event(host: str, name: str, data: bytes) -> ReadEvent | HookAnswer:
    """Return what the JSON *data* says of the event *name* of *host*, or the block of it.

    It raises nothing, whatever *data* is.
    """
    try:
        spoken = dialect(host)
    except Exception as error:  # noqa: BLE001 - as below
        return _unworded(reason_of(error))
    payload: Any = None
    try:
        payload = read_payload(data)
        event = spoken.decode(name, payload)
        if event.kind == "other" and (problem := _misnamed(spoken, name, payload)):
            return _unworded(sanitize(f"toolbus: {problem}"))
        if event.folder and (not event.folder.startswith("/") or "\0" in event.folder):
            raise DecodeError("the event's folder is no absolute path")  # noqa: TRY301 - for all dialects
        return ReadEvent(spoken, payload, event)
    except Exception as error:  # noqa: BLE001 - whatever it is, the host must be stopped
        return blocked(spoken, name, payload, reason_of(error))


def _misnamed(spoken: HostDialect, name: str, payload: Any) -> str | None:
    """Return that *payload* names an event that is judged, where the hook's *name* is none.

    Only such: Cursor runs hooks of Claude Code, and has other names for their events.
    """
    real_name = payload.get("hook_event_name")
    if not isinstance(real_name, str) or real_name == name:
        return None
    with suppress(Exception):  # What cannot be read is one that is judged.
        if spoken.decode(real_name, payload).kind == "other":
            return None
    return f"the hook answers to {name!r}, but the event is {real_name!r}; correct its command"


def block_of(host: str, name: str, data: bytes, reason: str) -> HookAnswer:
    """Return the block of the event *name* of *host*; it raises nothing."""
    reason, payload = sanitize(f"toolbus: {reason}"), None
    try:
        spoken = dialect(host)
    except Exception as error:  # noqa: BLE001 - as above
        return _unworded(reason_of(error))
    with suppress(Exception):
        payload = read_payload(data)
    return blocked(spoken, name, payload, reason)


def folder_of(event: HookEvent) -> Path:
    """Return the folder in which *event* happened, by its real path."""
    return Path(os.path.realpath(event.folder or Path.cwd()))


def blocked(spoken: HostDialect, name: str, payload: Any, reason: str) -> HookAnswer:
    """Return what stops the event *name*, also if its payload is hostile; it raises nothing."""
    for shown in (payload, None):
        try:
            return spoken.block(name, shown, reason)
        except Exception:  # noqa: BLE001, S112 - there is another way to say it
            continue
    return _unworded(reason)


def reason_of(error: Exception) -> str:
    """Return why an event is blocked, for the model; what foreign errors say is not quoted."""
    text = str(error)
    if not isinstance(error, _WORDED):
        text = f"it failed ({type(error).__name__})"
    elif isinstance(error, LoadError) and (foreign := _foreign_cause(error)) is not None:
        what = f"a component cannot be loaded ({type(foreign).__name__})"
        text = f"{what}; `toolbus wiring` says why"
    return sanitize(f"toolbus: {text}")[:_LONGEST]


def _foreign_cause(error: BaseException) -> BaseException | None:
    """Return what code of others raised, if that is why *error* was."""
    cause = error.__cause__
    while cause is not None and isinstance(cause, _OURS):
        cause = cause.__cause__
    return cause


def _unworded(reason: str) -> HookAnswer:
    return HookAnswer(stderr=f"{reason}\n".encode(errors="replace"), exit_code=_STOPPED)
