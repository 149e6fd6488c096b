"""The base of models behind HTTP, called through a provider's SDK with its own retries."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from toolbus.errors import ModelError, RegistrationError
from toolbus.formats.json_input import parse
from toolbus.formats.names import original_names
from toolbus.formats.output_schemas import with_schema_prompt
from toolbus.messages.immutable import replace_surrogates_in
from toolbus.providers.failures import RefusedAnswerError, failure_of, retries_of
from toolbus.providers.retry_after import excessive_pause, pause_limit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from toolbus.events.values import ModelDelta, ModelRequest
    from toolbus.messages.records import AssistantMessage
    from toolbus.providers.keys import ApiKey
    from toolbus.providers.wires import ModelWire

_WITHHELD = frozenset({"content_filter", "refusal"})
"""The stop reasons of a provider's filter; an empty answer with one is an error."""

_REFUSED_PARAMETER = frozenset({400, 422})
"""The statuses of servers that refuse unknown parameters."""


class RemoteModel:
    """A model called over *wire*; a subclass provides the SDK.

    Each event loop has its own client, since connections belong to a loop; `aclose`, and the end of
    `async with`, close the client of the running loop.
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
        self._is_schema_text = structured_output == "text"
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
        """Close the connections of the running loop; the next request opens new ones."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    async def complete(self, request: ModelRequest) -> AssistantMessage:
        """Return the complete answer; raises `ModelError`, also as `ContextOverflowError`."""
        body = self._body_of(request)
        try:
            raw = await self._create(self._client(), body, streamed=False)
            return self._message(parse(await self._read(raw), replace_surrogates_in), request, raw)
        except Exception as error:  # noqa: BLE001 - any error of an SDK and its libraries
            failure = self._failure(request, error)
        # Raised here, without a context: the request in the SDK's error contains the key.
        raise failure

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | AssistantMessage]:
        """Yield the deltas of the answer as they arrive, then the complete answer.

        A stream that is cut off raises `ModelError`; it is not retried.
        """
        asking = {
            name: value
            for name, value in self._wire.streaming.items()
            if name not in request.settings
        }
        body = {**asking, **self._body_of(request), "stream": True}
        assembler, names = self._wire.assembler(), original_names(request.tools)
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
                raise ModelError(request.model, "the stream ended before the end of the answer")
            yield whole
            return
        raise failure

    def _body_of(self, request: ModelRequest) -> dict[str, Any]:
        return self._wire.body_of(with_schema_prompt(request) if self._is_schema_text else request)

    def _message(self, answer: Any, request: ModelRequest, raw: Any) -> AssistantMessage:
        match answer:
            case {"error": {} | str() as error} if error:
                raise RefusedAnswerError(answer)
            case {"status": "failed"}:
                raise RefusedAnswerError(answer)
        message = self._wire.message_of(answer, request, retries_of(raw))
        if message.stop_reason in _WITHHELD and not (message.text or message.tool_calls):
            reason = f"the provider withheld the answer ({message.stop_reason}); rephrase it"
            raise ModelError(request.model, reason, 1 + retries_of(raw))
        return message

    def _failure(self, request: ModelRequest, error: Exception) -> ModelError:
        """Return *error* as a `ModelError` without keys, with a hint for a refused schema."""
        keys = [] if self._key is None else [self._key.reveal()]
        failure = failure_of(request.model, error, [*keys, *self._headers.values()])
        if excess := excessive_pause(getattr(getattr(error, "response", None), "headers", {})):
            failure = type(failure)(failure.model, failure.reason + excess, failure.attempts)
        is_native = request.output_schema is not None and not self._is_schema_text
        if is_native and getattr(error, "status_code", None) in _REFUSED_PARAMETER:
            hint = "if the server does not support schemas, use structured_output='text'"
            return type(failure)(failure.model, f"{failure.reason}; {hint}", failure.attempts)
        return failure

    def _unless_given(self, *headers: str) -> list[str]:
        """Return *headers*, in lower case, without those passed to the model."""
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
        """Send *body*; return the SDK's raw response, with its stream unread."""
        raise NotImplementedError

    async def _read(self, raw: Any) -> bytes:
        """Return the JSON body of *raw*."""
        raise NotImplementedError

    async def _events(self, raw: Any) -> Any:
        """Return the stream of *raw*, an async context manager of JSON objects."""
        raise NotImplementedError


def tls_for(base_url: str) -> ssl.SSLContext | bool:
    """Return the TLS context for *base_url*, True for the library's default.

    Loading all certificates takes a tenth of a second, and plain HTTP needs none. The context
    without certificates refuses TLS that is used nevertheless, for example to a proxy.
    """
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if base_url.startswith("http:") else True


def _check(name: Any, max_retries: Any, structured_output: Any) -> None:
    if not (isinstance(name, str) and name):
        raise RegistrationError(f"model {name!r}", "expected the provider's name of a model")
    if type(max_retries) is not int or max_retries < 0:
        raise RegistrationError(f"max_retries {max_retries!r}", "expected 0 or a positive number")
    if structured_output not in {"native", "text"}:
        raise RegistrationError(
            f"structured_output {structured_output!r}", "expected 'native' or 'text'"
        )
