"""Models of OpenAI and compatible servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from toolbus.errors import RegistrationError
from toolbus.messages.immutable import EMPTY
from toolbus.providers.remote import RemoteModel, tls_for
from toolbus.providers.servers import OPENAI, find_server
from toolbus.providers.wires import CHAT, RESPONSES
from toolbus.settings.extras import needs_extra

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

try:
    import openai
except ImportError as error:
    msg = needs_extra("models of OpenAI need its library", "openai")
    raise ImportError(msg, name="openai") from error

_WIRES = {"chat": CHAT, "responses": RESPONSES}


class OpenAIModel(RemoteModel):
    """The model *model* of OpenAI, or of a compatible server at *base_url*.

    Raises `RegistrationError` for invalid arguments. The key is never printed.

    Args:
        model: the provider's name of the model; handlers may change it in a request.
        api: `chat`, the chat completions of all compatible servers, or `responses`.
        base_url: by default `OPENAI_BASE_URL`, or OpenAI's own URL.
        key_env: the variable with the key; `OPENAI_API_KEY` unless *base_url* is given. A server
            at *base_url* only gets a key named here or in *key_file*.
        key_file: a file with the key, readable only by its owner.
        headers: extra headers; their values are treated as secrets.
        timeout: seconds without a byte from the server.
        max_retries: the SDK's retries after a lost connection, a timeout, 429 or 5xx; it waits as
            long as the server asks, but a request for more than a minute fails the call.
        structured_output: the form of an `output_type` in requests: `native`, the API's own
            parameter, or `text`, a prompt, for servers that refuse the parameter.

    >>> agent = Agent(OpenAIModel("NAME", base_url="http://localhost:8000/v1"))
    """

    def __init__(
        self,
        model: str,
        *,
        api: Literal["chat", "responses"] = "chat",
        base_url: str | None = None,
        key_env: str | None = None,
        key_file: str | Path | None = None,
        headers: Mapping[str, str] = EMPTY,
        timeout: float = 600.0,
        max_retries: int = 2,
        structured_output: Literal["native", "text"] = "native",
    ) -> None:
        if api not in _WIRES:
            raise RegistrationError(f"api {api!r}", "expected 'chat' or 'responses'")
        self._server = find_server(OPENAI, base_url, key_env, key_file)
        self._timeout = timeout
        super().__init__(
            model,
            _WIRES[api],
            self._server.key,
            headers,
            max_retries=max_retries,
            structured_output=structured_output,
        )

    def _connect(self) -> openai.AsyncOpenAI:
        key = self._server.key
        return openai.AsyncOpenAI(
            # The SDK requires a key; without one, its header is removed from the requests.
            api_key="none" if key is None else key.reveal(),
            admin_api_key="",
            base_url=self._server.base_url,
            timeout=self._timeout,
            max_retries=self._max_retries,
            default_headers=self._headers,
            # A redirect would send the request to another server.
            http_client=openai.DefaultAsyncHttpxClient(
                follow_redirects=False,
                verify=tls_for(self._server.base_url),
                event_hooks=self._hooks,
            ),
        )

    async def _create(
        self, client: openai.AsyncOpenAI, body: Mapping[str, Any], *, streamed: bool
    ) -> Any:
        extra, model = dict(body), body["model"]
        if self._wire is RESPONSES:
            return await client.responses.with_raw_response.create(
                model=model, stream=streamed, extra_body=extra, extra_headers=self._omitted()
            )
        return await client.chat.completions.with_raw_response.create(
            model=model,
            messages=[],
            stream=streamed,
            extra_body=extra,
            extra_headers=self._omitted(),
        )

    def _omitted(self) -> dict[str, Any]:
        """Return the SDK's headers that are not meant for this server, as omitted."""
        absent = ("authorization",) if self._server.key is None else ()
        names = self._unless_given(*absent, *self._server.omitted)
        return dict.fromkeys(names, openai.Omit())

    async def _read(self, raw: Any) -> bytes:
        data: bytes = raw.content
        return data

    async def _events(self, raw: Any) -> Any:
        # Plain JSON, which keeps fields of compatible servers unknown to the SDK.
        return raw.parse(to=openai.AsyncStream[object])
