"""The decoding of a host's JSON into an event, and the fail-closed answer where that is impossible.

Cursor also runs the hooks that a user set up for Claude Code, with its own names of events and
tools (https://cursor.com/docs/reference/third-party-hooks): this module detects the sender.
"""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import msgspec

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
from toolbus.hosts.dialects.hook_events import HookAnswer, HookEvent
from toolbus.settings.spans import sanitize
from toolbus.toml.values import MisfitError

if TYPE_CHECKING:
    from toolbus.hosts.dialects.host_dialect import HostDialect

MAX_BYTES = 64 * 2**20
"""The most bytes of an event."""

_WORDED = (DeadlineError, DecodeError, FreezeError, LoadError, RegistrationError, StoreError)
"""Errors whose text is ours: the texts of other errors may quote secrets."""

_OURS = (ToolbusError, MisfitError, OSError, ImportError, SyntaxError)
"""Causes of our errors that need not be reported as foreign code."""

_LONGEST = 2_000
_STOPPED = 2
"""The exit code by which most hosts block, for failures that no dialect can express."""

_CURSOR_NAMES = {
    "PreToolUse": "preToolUse",
    "PostToolUse": "postToolUse",
    "PostToolUseFailure": "postToolUseFailure",
    "UserPromptSubmit": "beforeSubmitPrompt",
    "Stop": "stop",
    "SubagentStop": "subagentStop",
    "SessionStart": "sessionStart",
    "SessionEnd": "sessionEnd",
}
"""Cursor's names for the events of Claude Code."""
_MAX_HOOKS = 2**20


class ReadEvent(NamedTuple):
    """An *event* that *dialect* decoded from the JSON *payload*."""

    dialect: HostDialect
    payload: dict[str, Any]
    event: HookEvent


def read_event(host: str, name: str, data: bytes) -> ReadEvent | HookAnswer:
    """Return the event *name* of *host* from the JSON *data*, or its fail-closed answer.

    It never raises.
    """
    payload: Any = None
    try:
        host_dialect = dialect(host)
    except Exception as error:  # noqa: BLE001 - as below
        return _unworded(reason_of(error))
    try:
        payload = read_payload(data)
        host_dialect, name = _speaker(host_dialect, name, payload)
        event = host_dialect.decode(name, payload)
        if host_dialect.facts.name != host and _is_judged_by_cursor(name):
            event = HookEvent(host=event.host, name=name, kind="other", session_id=event.session_id)
        elif event.kind == "other" and (problem := _misnamed(host_dialect, name, payload)):
            return _unworded(sanitize(f"toolbus: {problem}"))
        if event.folder and (not event.folder.startswith("/") or "\0" in event.folder):
            raise DecodeError("the event's folder is not an absolute path")  # noqa: TRY301 - for all dialects
        return ReadEvent(host_dialect, payload, event)
    except Exception as error:  # noqa: BLE001 - any failure must stop the host
        return fail_closed(host_dialect, name, payload, reason_of(error))


def answer_unread(host: str, name: str, data: bytes, reason: str) -> HookAnswer:
    """Return the fail-closed answer to the undecoded event *name* of *host*; never raise."""
    reason, payload = sanitize(f"toolbus: {reason}"), None
    try:
        host_dialect = dialect(host)
    except Exception as error:  # noqa: BLE001 - as above
        return _unworded(reason_of(error))
    with suppress(Exception):
        payload = read_payload(data)
        host_dialect, name = _speaker(host_dialect, name, payload)
    return fail_closed(host_dialect, name, payload, reason)


def fail_closed(host_dialect: HostDialect, name: str, payload: Any, reason: str) -> HookAnswer:
    """Return the answer that blocks the event *name*, even of a hostile payload; never raise."""
    for shown in (payload, None):
        try:
            return host_dialect.fail_closed_answer(name, shown, reason)
        except Exception:  # noqa: BLE001, S112 - the next answer does without the payload
            continue
    return _unworded(reason)


def reason_of(error: Exception) -> str:
    """Return the reason of a block, for the model; texts of foreign errors are not quoted."""
    text = str(error)
    if not isinstance(error, _WORDED):
        text = f"it failed ({type(error).__name__})"
    elif isinstance(error, LoadError) and (foreign := _foreign_cause(error)) is not None:
        failure = f"a component cannot be loaded ({type(foreign).__name__})"
        text = f"{failure}; `toolbus handlers` says why"
    return sanitize(f"toolbus: {text}")[:_LONGEST]


def folder_of(event: HookEvent) -> Path:
    """Return the real path of the folder in which *event* happened."""
    return Path(os.path.realpath(event.folder or Path.cwd()))


def read_payload(data: bytes) -> dict[str, Any]:
    """Return the JSON object in *data*; lone surrogates become U+FFFD.

    Raises `DecodeError` for any other data, and for more than `MAX_BYTES`.
    """
    if len(data) > MAX_BYTES:
        raise DecodeError(f"the event has more than {MAX_BYTES:,} bytes")
    # Cursor writes a byte order mark on Windows; RFC 8259, section 8.1, lets readers ignore it.
    data = data.removeprefix(BOM_UTF8)
    try:
        payload = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        payload = _mended(data)
    except RecursionError:
        raise DecodeError("the event is nested too deeply") from None
    if not isinstance(payload, dict):
        raise DecodeError("the event is not a JSON object")
    return payload


def _mended(data: bytes) -> Any:
    """Return the value of *data* if its only fault is lone surrogates, as JavaScript writes."""
    import json  # noqa: PLC0415 - for few

    from toolbus.messages.immutable import replace_surrogates_in  # noqa: PLC0415 - as above

    try:
        return replace_surrogates_in(json.loads(data, parse_constant=_refuse))
    # The parser's message is not quoted: it may contain a secret.
    except ValueError:
        raise DecodeError("the event is not valid JSON") from None
    except RecursionError:
        raise DecodeError("the event is nested too deeply") from None


def _refuse(_: str) -> NoReturn:
    raise ValueError


def _speaker(host_dialect: HostDialect, name: str, payload: Any) -> tuple[HostDialect, str]:
    """Return the dialect of the sender of *payload*, and its name of the event."""
    is_of_cursor = isinstance(payload, dict) and isinstance(payload.get("cursor_version"), str)
    if host_dialect.facts.name == "claude-code" and is_of_cursor:
        return dialect("cursor"), _CURSOR_NAMES.get(name, name)
    return host_dialect, name


def _is_judged_by_cursor(name: str) -> bool:
    """Return whether the user's own `hooks.json` of Cursor runs our hook for the event *name*.

    A project's file does not count: a hostile one could name our hook to evade all judgement.
    """
    from toolbus.hosts.install.host_files import hooks_file, is_ours  # noqa: PLC0415 - for few

    try:
        with hooks_file("cursor").open("rb") as stream:
            value = msgspec.json.decode(stream.read(_MAX_HOOKS))
        return is_ours(value["hooks"][name], "cursor")
    except (OSError, ValueError, LookupError, TypeError, RecursionError, RuntimeError):
        return False


def _misnamed(host_dialect: HostDialect, name: str, payload: Any) -> str | None:
    """Return the problem if *payload* names a judged event, and the hook's *name* is not one."""
    real_name = payload.get("hook_event_name")
    if not isinstance(real_name, str) or real_name == name:
        return None
    if host_dialect.facts.kinds.get(real_name, "other") == "other":
        return None
    return f"the hook is set up for {name!r}, but the event is {real_name!r}; correct its command"


def _foreign_cause(error: BaseException) -> BaseException | None:
    """Return the foreign exception that caused *error*, if any."""
    cause = error.__cause__
    while cause is not None and isinstance(cause, _OURS):
        cause = cause.__cause__
    return cause


def _unworded(reason: str) -> HookAnswer:
    return HookAnswer(stderr=f"{reason}\n".encode(errors="replace"), exit_code=_STOPPED)
