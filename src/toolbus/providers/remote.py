"""A model behind HTTP: asked through its provider's SDK, which tries again by itself."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from toolbus.errors import ModelError, RegistrationError
from toolbus.formats.json_input import parse
from toolbus.formats.names import names_on_the_wire
from toolbus.formats.output_schemas import with_words
from toolbus.messages.immutable import replace_surrogates_in
from toolbus.providers.failures import RefusedAnswerError, failure_of, retries_of
from toolbus.providers.retry_after import excess_of, pause_limit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from toolbus.events.values import ModelDelta, ModelRequest
    from toolbus.messages.records import AssistantMessage
    from toolbus.providers.keys import ApiKey
    from toolbus.providers.wires import ModelWire

_WITHHELD = frozenset({"content_filter", "refusal"})
"""Why an answer ended that a provider's filter stopped; an empty one is no answer."""

_REFUSED_PARAMETER = frozenset({400, 422})
"""The statuses with which servers refuse parameters that they do not know."""


class RemoteModel:
    """A model that is asked over *wire*; a subclass knows the SDK.

    It has a client for each event loop, since connections belong to theirs; `aclose` closes that
    of the running loop, as `async with` does at its end.
    """

    def __init__(
        self,
        name: str,
        wire: ModelWire,
        key: ApiKey | None,
        headers: Mapping[str, str],
        *,
        max_retries: int,
        structured_output: str,
    ) -> None:
        _check(name, max_retries, structured_output)
        self._says_schema_in_words = structured_output == "text"
        self.name, self._wire, self._key = name, wire, key
        self._headers, self._max_retries = dict(headers), max_retries
        self._hooks = {"response": [pause_limit(name, max_retries)]}
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections of the running loop; the next request opens others."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    async def complete(self, request: ModelRequest) -> AssistantMessage:
        """Return the whole answer; raises `ModelError`, and `ContextOverflowError` among those."""
        body = self._body_of(request)
        try:
            raw = await self._create(self._client(), body, streamed=False)
            return self._message(parse(await self._read(raw), replace_surrogates_in), request, raw)
        except Exception as error:  # noqa: BLE001 - what an SDK and its libraries raise
            failure = self._failure(request, error)
        # Here, so that it has no context: the request of the SDK's error has the key.
        raise failure

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | AssistantMessage]:
        """Give the answer in pieces as they come, then the whole of it, as `complete` would.

        What was cut off in mid-stream raises `ModelError`; it is not asked for again.
        """
        asking = {
            name: value
            for name, value in self._wire.streaming.items()
            if name not in request.settings
        }
        body = {**asking, **self._body_of(request), "stream": True}
        assembler, names = self._wire.assembler(), names_on_the_wire(request.tools)
        try:
            raw = await self._create(self._client(), body, streamed=True)
            async with await self._events(raw) as events:
                async for event in events:
                    for delta in assembler.feed(event):
                        known = names.get(delta.name) if names else None
                        yield delta if known is None else replace(delta, name=known)
            whole = self._message(assembler.answer(), request, raw) if assembler.is_whole else None
        except Exception as error:  # noqa: BLE001 - as above
            failure = self._failure(request, error)
        else:
            if whole is None:
                raise ModelError(request.model, "the stream ended before the answer did")
            yield whole
            return
        raise failure

    def _body_of(self, request: ModelRequest) -> dict[str, Any]:
        return self._wire.body_of(with_words(request) if self._says_schema_in_words else request)

    def _message(self, answer: Any, request: ModelRequest, raw: Any) -> AssistantMessage:
        match answer:
            case {"error": {} | str() as error} if error:
                raise RefusedAnswerError(answer)
            case {"status": "failed"}:
                raise RefusedAnswerError(answer)
        message = self._wire.message_of(answer, request, retries_of(raw))
        if message.stop_reason in _WITHHELD and not (message.text or message.tool_calls):
            reason = f"its provider withheld the answer ({message.stop_reason}); word it otherwise"
            raise ModelError(request.model, reason, 1 + retries_of(raw))
        return message

    def _failure(self, request: ModelRequest, error: Exception) -> ModelError:
        """Return what *error* says, without a key; of a schema that was refused, the way out."""
        keys = [] if self._key is None else [self._key.reveal()]
        failure = failure_of(request.model, error, [*keys, *self._headers.values()])
        if excess := excess_of(getattr(getattr(error, "response", None), "headers", {})):
            failure = type(failure)(failure.model, failure.reason + excess, failure.attempts)
        is_native = request.output_schema is not None and not self._says_schema_in_words
        if is_native and getattr(error, "status_code", None) in _REFUSED_PARAMETER:
            hint = "if it takes no schema, give the model structured_output='text'"
            return type(failure)(failure.model, f"{failure.reason}; {hint}", failure.attempts)
        return failure

    def _unless_given(self, *headers: str) -> list[str]:
        """Return those of *headers*, in lower case, that the maker of the model did not give."""
        names = {name.lower() for name in self._headers}
        return [header for header in headers if header not in names]

    def _client(self) -> Any:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = self._connect()
        return client

    def _connect(self) -> Any:
        """Return a client of the SDK."""
        raise NotImplementedError

    async def _create(self, client: Any, body: Mapping[str, Any], *, streamed: bool) -> Any:
        """Send *body*; return the SDK's raw response, whose stream is not read yet."""
        raise NotImplementedError

    async def _read(self, raw: Any) -> bytes:
        """Return the JSON of *raw*."""
        raise NotImplementedError

    async def _events(self, raw: Any) -> Any:
        """Return the stream of *raw*, an async context of JSON objects."""
        raise NotImplementedError


def tls_for(base_url: str) -> ssl.SSLContext | bool:
    """Return what checks the server at *base_url*; True for the library's own way.

    To load all certificates takes a tenth of a second, and plain HTTP needs none. The context
    without any refuses whatever would speak TLS all the same, a proxy for one.
    """
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if base_url.startswith("http:") else True


def _check(name: Any, max_retries: Any, structured_output: Any) -> None:
    if not (isinstance(name, str) and name):
        raise RegistrationError(f"model {name!r}", "expected the provider's name of a model")
    if type(max_retries) is not int or max_retries < 0:
        raise RegistrationError(f"max_retries {max_retries!r}", "expected a number, 0 or more")
    if structured_output not in {"native", "text"}:
        raise RegistrationError(
            f"structured_output {structured_output!r}", "there are 'native' and 'text'"
        )
