"""What all readers share: JSON as plain values, what is wrong with it, and the names of tools."""

from __future__ import annotations

from typing import Any, NoReturn

from toolbus.errors import DecodeError
from toolbus.messages.codec import decoder
from toolbus.messages.immutable import escape_surrogates
from toolbus.messages.records import AssistantMessage, Message, ToolMessage

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


class ToolNames:
    """The tools of calls that have no result yet, the latest *limit* of them.

    In other formats a result does not say from which tool it comes.
    """

    def __init__(self, limit: int = 10_000) -> None:
        self._names: dict[str, str] = {}
        self._limit = limit

    def add(self, message: Message) -> None:
        """Remember the calls of *message*, and forget the one that it answers."""
        match message:
            case AssistantMessage(tool_calls=calls):
                self._names.update({call.id: call.name for call in calls})
            case ToolMessage(tool_call_id=call_id):
                self._names.pop(call_id, None)
        while len(self._names) > self._limit:
            del self._names[next(iter(self._names))]

    def of(self, call_id: str) -> str:
        """Return the name of the tool of the call *call_id*, "" if nobody made it."""
        return self._names.get(call_id, "")
