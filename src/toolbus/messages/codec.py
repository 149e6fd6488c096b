"""The encoding of records as JSON and as MessagePack; invalid data is a `DecodeError`."""

from __future__ import annotations

import re
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec

from toolbus.errors import DecodeError, FreezeError
from toolbus.messages.ids import decoding

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_encode_json = msgspec.json.Encoder().encode
_encode_msgpack = msgspec.msgpack.Encoder().encode

# The end of msgspec's reasons. Text of the data may look the same, but never at the end.
_OFFSET = r" \(byte (\d+)\)$"
_PATH = r" - at (?:`(key)` in )?`\$([^`]*)`$"


def encode(record: Any) -> bytes:
    """Return *record*, a message or any other record, as JSON."""
    return _encode_json(record)


def encode_msgpack(record: Any) -> bytes:
    """Return *record*, a message or any other record, as MessagePack."""
    return _encode_msgpack(record)


@overload
def decoder(kind: type[T]) -> Callable[[bytes | str], T]: ...
@overload
def decoder(kind: object) -> Callable[[bytes | str], Any]: ...
def decoder(kind: Any) -> Callable[[bytes | str], Any]:
    """Return a function that decodes the JSON of one *kind* of record; raises `DecodeError`."""
    # Built on first use: a decoder of many kinds costs a millisecond.
    return partial(_decoded, cache(lambda: msgspec.json.Decoder(kind).decode))


@overload
def msgpack_decoder(kind: type[T]) -> Callable[[bytes], T]: ...
@overload
def msgpack_decoder(kind: object) -> Callable[[bytes], Any]: ...
def msgpack_decoder(kind: Any) -> Callable[[bytes], Any]:
    """Return a function that decodes MessagePack, like `decoder`."""
    return partial(_decoded, cache(lambda: msgspec.msgpack.Decoder(kind).decode))


def changed(before: Any, after: Any) -> bool:
    """Return whether two records differ: by identity, then by encoding, so 1, True and 1.0 do.

    Values without an encoding differ unless they are the same object.
    """
    if before is after:
        return False
    try:
        return _encode_json(before) != _encode_json(after)
    except (TypeError, ValueError, RecursionError):
        return True


def _decoded(decode: Callable[[], Callable[[Any], T]], data: bytes | str) -> T:
    decoding.active = True
    try:
        return decode()(data)
    except RecursionError:
        raise DecodeError("nested too deeply", "$") from None
    except UnicodeEncodeError as error:
        offset = len(_raw(error.object[: error.start]))
        raise DecodeError(f"invalid UTF-8: {error.reason}", None, offset) from None
    except msgspec.ValidationError as error:
        raise _refusal(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:  # The latter before 0.23.
        raise _damage(error, _raw(data)) from None
    finally:
        decoding.active = False


def _refusal(error: msgspec.ValidationError) -> DecodeError:
    """Return *error* with one path: msgspec appends its own to the path of a `FreezeError`."""
    text, cause = str(error), error.__cause__
    outer = text.removeprefix(str(cause)) if isinstance(cause, FreezeError) else text
    place = re.search(_PATH, outer)
    key, path = place.groups() if place else (None, "")
    if isinstance(cause, FreezeError):
        return DecodeError(cause.reason, f"${path}{cause.path.removeprefix('$')}")
    reason = re.sub(_PATH, "", text)
    return DecodeError(reason[:1].lower() + reason[1:], f"${path}{' (key)' if key else ''}")


def _damage(error: msgspec.DecodeError | UnicodeDecodeError, data: bytes) -> DecodeError:
    text = str(error)
    if isinstance(error, UnicodeDecodeError) or text == "Invalid UTF-8 encoded string":
        return DecodeError("invalid UTF-8", *_place_of_invalid_text(data))
    if offset := re.search(_OFFSET, text):
        return DecodeError(text[: offset.start()], None, int(offset[1]))
    return DecodeError("input data was truncated", None, len(data))


def _place_of_invalid_text(data: bytes) -> tuple[str | None, int | None]:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        # Already the first byte of MessagePack is not UTF-8.
        return (None, error.start) if error.start > 0 else ("$", None)
    return "$", None


def _raw(data: bytes | str) -> bytes:
    return data.encode(errors="surrogatepass") if isinstance(data, str) else bytes(data)
