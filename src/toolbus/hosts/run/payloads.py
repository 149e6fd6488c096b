"""The JSON of an event, as a host wrote it."""

from __future__ import annotations

from codecs import BOM_UTF8
from typing import Any, NoReturn

import msgspec

from toolbus.errors import DecodeError

MAX_BYTES = 64 * 2**20
"""What a host may write of one event; nobody reads more."""


def read_payload(data: bytes) -> dict[str, Any]:
    """Return the object that *data* is, a new one; half a character in it becomes U+FFFD.

    Raises `DecodeError` for anything else, and for more than `MAX_BYTES`.
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
        raise DecodeError("the event is no JSON object")
    return payload


def _mended(data: bytes) -> Any:
    """Return what *data* says if half characters, as JavaScript cuts, are all that is wrong."""
    import json  # noqa: PLC0415 - for few

    from toolbus.messages.immutable import mend  # noqa: PLC0415 - as above

    try:
        return mend(json.loads(data, parse_constant=_refuse))
    # What is wrong is not quoted: nobody knows what it is.
    except ValueError:
        raise DecodeError("the event is no JSON") from None
    except RecursionError:
        raise DecodeError("the event is nested too deeply") from None


def _refuse(_: str) -> NoReturn:
    raise ValueError
