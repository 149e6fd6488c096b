"""What all readers share: JSON as plain values, what is wrong with it, and the names of tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from toolbus.errors import DecodeError
from toolbus.messages.codec import decoder
from toolbus.messages.immutable import escape_surrogates
from toolbus.messages.records import AssistantMessage, Message, ToolCall, ToolMessage, encode

if TYPE_CHECKING:
    from collections.abc import Callable

_decode = decoder(Any)


def escaped(value: Any) -> Any:
    """Return the JSON *value* with each half of a surrogate pair as an escape."""
    match value:
        case str():
            return escape_surrogates(value)
        case list():
            return [escaped(item) for item in value]
        case dict():
            return {escape_surrogates(key): escaped(item) for key, item in value.items()}
    return value


def parse(data: bytes | str, halves: Callable[[Any], Any] = escaped) -> Any:
    """Return the JSON value *data*; raises `DecodeError`.

    Half of a surrogate pair is kept as the escape that it is, unless *halves* says otherwise:
    programs in JavaScript cut text between the two and write one
    (https://tc39.es/ecma262/#sec-quotejsonstring).
    """
    try:
        return _decode(data)
    except DecodeError as error:
        text = data if isinstance(data, str) else data.decode(errors="replace")
        if "\\ud" not in text.lower():
            raise
        return _parse_halves(data, error, halves)


def unexpected(what: str, value: object, path: str) -> DecodeError:
    """Return the error to raise: at *path* *what* is expected, and there is *value*."""
    return DecodeError(f"expected {what}, got `{type(value).__name__}`", path)


def call_of(
    call_id: str, name: str, arguments: Any, read: Callable[[str], Any] = parse
) -> ToolCall:
    """Return a call; *arguments* are JSON, which *read* parses, or what that says.

    What is no JSON object, or cannot be one of ours, is kept as its text.
    """
    text = arguments if isinstance(arguments, str) else encode(arguments).decode()
    # Models leave the arguments of a function without parameters out.
    if not text.strip():
        return ToolCall(id=call_id, name=name)
    try:
        value = read(text) if isinstance(arguments, str) else arguments
        if isinstance(value, dict):
            return ToolCall(id=call_id, name=name, arguments=value)
    except ValueError:
        pass
    return ToolCall(id=call_id, name=name, raw=text)


def _parse_halves(data: bytes | str, error: DecodeError, halves: Callable[[Any], Any]) -> Any:
    from json import loads  # noqa: PLC0415 - few lines need it

    def refuse(_: str) -> NoReturn:
        raise error

    try:
        return halves(loads(data, parse_constant=refuse))
    except (ValueError, RecursionError):
        raise error from None


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
