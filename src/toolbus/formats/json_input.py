"""JSON input of all readers: parsing, errors, calls, and the tool names of results."""

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
    """Return the JSON *value* with each unpaired surrogate as an escape."""
    match value:
        case str():
            return escape_surrogates(value)
        case list():
            return [escaped(item) for item in value]
        case dict():
            return {escape_surrogates(key): escaped(item) for key, item in value.items()}
    return value


def parse(data: bytes | str, replace: Callable[[Any], Any] = escaped) -> Any:
    """Return the JSON value *data*; raises `DecodeError`.

    An unpaired surrogate is kept as its escape, unless *replace* is given: JavaScript programs cut
    text within a pair, and write one half (https://tc39.es/ecma262/#sec-quotejsonstring).
    """
    try:
        return _decode(data)
    except DecodeError as error:
        text = data if isinstance(data, str) else data.decode(errors="replace")
        if "\\ud" not in text.lower():
            raise
        return _parse_surrogates(data, error, replace)


def unexpected(what: str, value: object, path: str) -> DecodeError:
    """Return the error for *value* at *path*, where *what* was expected."""
    return DecodeError(f"expected {what}, got `{type(value).__name__}`", path)


def call_of(
    call_id: str, name: str, arguments: Any, read: Callable[[str], Any] = parse
) -> ToolCall:
    """Return a call with *arguments*, a value or JSON text, which *read* parses.

    Arguments that are not a JSON object, or that a record cannot hold, are kept as text.
    """
    text = arguments if isinstance(arguments, str) else encode(arguments).decode()
    # Models omit the arguments of a function without parameters.
    if not text.strip():
        return ToolCall(id=call_id, name=name)
    try:
        value = read(text) if isinstance(arguments, str) else arguments
        if isinstance(value, dict):
            return ToolCall(id=call_id, name=name, arguments=value)
    except ValueError:
        pass
    return ToolCall(id=call_id, name=name, raw=text)


def _parse_surrogates(data: bytes | str, error: DecodeError, replace: Callable[[Any], Any]) -> Any:
    from json import loads  # noqa: PLC0415 - rarely needed

    def refuse(_: str) -> NoReturn:
        raise error

    try:
        return replace(loads(data, parse_constant=refuse))
    except (ValueError, RecursionError):
        raise error from None


class ToolNames:
    """The tool names of the latest *limit* calls without a result.

    In other formats a result does not name its tool.
    """

    def __init__(self, limit: int = 10_000) -> None:
        self._names: dict[str, str] = {}
        self._limit = limit

    def add(self, message: Message) -> None:
        """Add the calls of *message*, and remove the call that it answers."""
        match message:
            case AssistantMessage(tool_calls=calls):
                self._names.update({call.id: call.name for call in calls})
            case ToolMessage(tool_call_id=call_id):
                self._names.pop(call_id, None)
        while len(self._names) > self._limit:
            del self._names[next(iter(self._names))]

    def of(self, call_id: str) -> str:
        """Return the tool's name for the call *call_id*, "" if it is unknown."""
        return self._names.get(call_id, "")
