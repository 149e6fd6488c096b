"""The answer to one event of a host's hooks, whatever happens on the way."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from toolbus.errors import DecodeError, LoadError, StoreError
from toolbus.hosts.hook_events import HookAnswer, HookDecision
from toolbus.hosts.payloads import read_payload
from toolbus.terminal.spans import sanitize

if TYPE_CHECKING:
    from toolbus.hosts.hook_events import HookEvent, HostDialect
    from toolbus.hosts.hook_settings import HookSettings

_WORDED = (DecodeError, LoadError, StoreError)
"""Errors whose text is ours: what another one says may quote anything."""

_STOPPED = 2
"""The exit code by which most hosts stop, for what no dialect could word."""


def answer(
    host: str, name: str, data: bytes, environment: HookSettings, event_id: str = ""
) -> HookAnswer:
    """Return what *host* is told of its event *name*, whose JSON is *data*.

    Whatever fails is answered by the host's block; only exits are raised. *event_id* is the same
    when the same event is handled once more, because nobody knows whether it was.
    """
    try:
        dialect = _dialect(host)
    except Exception as error:  # noqa: BLE001 - as below
        return _unworded(_reason(error))
    payload: Any = None
    try:
        payload = read_payload(data)
        event = dialect.decode(name, payload)
        return dialect.encode(event, _decide(event, dialect, environment, event_id))
    except Exception as error:  # noqa: BLE001 - whatever it is, the host must be stopped
        return blocked(dialect, name, payload, _reason(error))


def blocked(dialect: HostDialect, name: str, payload: Any, reason: str) -> HookAnswer:
    """Return what stops the event *name*, also if its payload is hostile; it never raises."""
    for shown in (payload, None):
        try:
            return dialect.block(name, shown, reason)
        except Exception:  # noqa: BLE001, S112 - there is another way to say it
            continue
    return _unworded(reason)


def _decide(
    event: HookEvent, dialect: HostDialect, environment: HookSettings, event_id: str
) -> HookDecision:
    from toolbus.config.configuration import read, read_nearest  # noqa: PLC0415 - not for garbage

    config = environment.config
    configuration = read_nearest() if config is None else read(config)
    if configuration is None:
        return HookDecision()
    raise LoadError(f"{dialect.name}: no chain for event {event.name!r} {event_id!r}")


def _dialect(host: str) -> HostDialect:
    made: HostDialect = import_module("toolbus.hosts.dialects").dialect(host)
    return made


def _reason(error: Exception) -> str:
    text = str(error) if isinstance(error, _WORDED) else f"it failed ({type(error).__name__})"
    return sanitize(f"toolbus: {text}")


def _unworded(reason: str) -> HookAnswer:
    return HookAnswer(stderr=f"{reason}\n".encode(errors="replace"), exit_code=_STOPPED)
