"""Models of Anthropic and compatible servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from toolbus.messages.immutable import EMPTY
from toolbus.providers import servers
from toolbus.providers.remote import RemoteModel, tls_for
from toolbus.providers.wires import ANTHROPIC
from toolbus.settings.extras import needs_extra

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

try:
    import anthropic
except ImportError as error:
    msg = needs_extra("models of Anthropic need its library", "anthropic")
    raise ImportError(msg, name="anthropic") from error


class AnthropicModel(RemoteModel):
    """The model *model* of Anthropic, or of a compatible server at *base_url*.

    Raises `RegistrationError` for invalid arguments. The key is never printed. Prompts are cached
    with `model_settings={"cache_control": {"type": "ephemeral"}}`: the API then marks the end of
    each request, and the next request begins with the same content.

    Args:
        model: the provider's name of the model; handlers may change it in a request.
        base_url: by default `ANTHROPIC_BASE_URL`, or Anthropic's own URL.
        key_env: the variable with the key; `ANTHROPIC_API_KEY` unless *base_url* is given. A
            server at *base_url* only gets a key named here or in *key_file*.
        key_file: a file with the key, readable only by its owner.
        headers: extra headers, such as `anthropic-beta`; their values are treated as secrets.
        timeout: seconds without a byte from the server.
        max_retries: the SDK's retries after a lost connection, a timeout, 429 or 5xx; it waits as
            long as the server asks, but a request for more than a minute fails the call.
        structured_output: the form of an `output_type` in requests: `native`, the API's own
            parameter, or `text`, a prompt, for servers that refuse the parameter.

    >>> agent = Agent(AnthropicModel("NAME"))
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        key_env: str | None = None,
        key_file: str | Path | None = None,
        headers: Mapping[str, str] = EMPTY,
        timeout: float = 600.0,
        max_retries: int = 2,
        structured_output: Literal["native", "text"] = "native",
    ) -> None:
        self._server = servers.find_server(servers.ANTHROPIC, base_url, key_env, key_file)
        self._timeout = timeout
        super().__init__(
            model,
            ANTHROPIC,
            self._server.key,
            headers,
            max_retries=max_retries,
            structured_output=structured_output,
        )

    def _connect(self) -> anthropic.AsyncAnthropic:
        key = self._server.key
        return anthropic.AsyncAnthropic(
            # The SDK requires a key; without one, its header is removed from the requests.
            api_key="none" if key is None else key.reveal(),
            base_url=self._server.base_url,
            timeout=self._timeout,
            max_retries=self._max_retries,
            default_headers=self._headers,
            # The SDK's spans would contain data that handlers have not seen.
            open_telemetry=False,
            # A redirect would send the request to another server.
            http_client=anthropic.DefaultAsyncHttpxClient(
                follow_redirects=False,
                verify=tls_for(self._server.base_url),
                event_hooks=self._hooks,
            ),
        )

    async def _create(
        self, client: anthropic.AsyncAnthropic, body: Mapping[str, Any], *, streamed: bool
    ) -> Any:
        return await client.messages.with_raw_response.create(
            model=body["model"],
            max_tokens=body["max_tokens"],
            messages=[],
            stream=streamed,
            extra_body=dict(body),
            extra_headers=self._omitted(),
        )

    def _omitted(self) -> dict[str, Any]:
        """Return the SDK's headers that are not meant for this server, as omitted."""
        absent = ("authorization", "x-api-key") if self._server.key is None else ()
        return {
            name: anthropic.Omit() for name in self._unless_given(*absent, *self._server.omitted)
        }

    async def _read(self, raw: Any) -> bytes:
        data: bytes = await raw.read()
        return data

    async def _events(self, raw: Any) -> Any:
        # Plain JSON, which keeps fields of compatible servers unknown to the SDK.
        return await raw.parse(to=anthropic.AsyncStream[object])
