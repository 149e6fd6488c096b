"""One line of somebody else's JSON as plain values, and what is wrong with it."""

from __future__ import annotations

from typing import Any, NoReturn

from toolbus.errors import DecodeError
from toolbus.messages.codec import decoder
from toolbus.messages.immutable import escape_surrogates

_decode = decoder(Any)


def parse(data: bytes | str) -> Any:
    """Return the JSON value *data*; raises `DecodeError`.

    Half of a surrogate pair is kept as the escape that it is: programs in JavaScript cut text
    between the two and write one (https://tc39.es/ecma262/#sec-quotejsonstring).
    """
    try:
        return _decode(data)
    except DecodeError as error:
        text = data if isinstance(data, str) else data.decode(errors="replace")
        if "\\ud" not in text.lower():
            raise
        return _parse_halves(data, error)


def unexpected(what: str, value: object, path: str) -> DecodeError:
    """Return the error to raise: at *path* *what* is expected, and there is *value*."""
    return DecodeError(f"expected {what}, got `{type(value).__name__}`", path)


def _parse_halves(data: bytes | str, error: DecodeError) -> Any:
    from json import loads  # noqa: PLC0415 - few lines need it

    def refuse(_: str) -> NoReturn:
        raise error

    try:
        return _escaped(loads(data, parse_constant=refuse))
    except (ValueError, RecursionError):
        raise error from None


def _escaped(value: Any) -> Any:
    match value:
        case str():
            return escape_surrogates(value)
        case list():
            return [_escaped(item) for item in value]
        case dict():
            return {escape_surrogates(key): _escaped(item) for key, item in value.items()}
    return value
