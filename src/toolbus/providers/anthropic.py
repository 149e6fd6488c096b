"""Models of Anthropic, and of every server that speaks as it does."""

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
    msg = needs_extra("to ask models of Anthropic needs its library", "anthropic")
    raise ImportError(msg, name="anthropic") from error


class AnthropicModel(RemoteModel):
    """The model *model* of Anthropic, or of a compatible server at *base_url*.

    Raises `RegistrationError` for what could never work. Nothing prints the key. An agent's prompts
    are cached with `model_settings={"cache_control": {"type": "ephemeral"}}`: the API then marks
    the end of each request, and each begins as the one before.

    Args:
        model: the provider's name of it; handlers may write another one into a request.
        base_url: else `ANTHROPIC_BASE_URL`, else Anthropic's own address.
        key_env: the variable with the key; `ANTHROPIC_API_KEY` unless a *base_url* is given. A
            server at a *base_url* gets no key that is not named here or as *key_file*.
        key_file: a file with the key that only its owner may read.
        headers: sent with each request, `anthropic-beta` for one; taken for secrets.
        timeout: seconds without a byte from the server.
        max_retries: how often a lost connection, a timeout, 429 and 5xx are tried again, by the
            SDK, with the pause that the server asks for: a minute at most, else the call fails.
        structured_output: how the server is told what an `output_type` is: `native`, by the API's
            own parameter, or `text`, in words, for servers that refuse that parameter.

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
            # The SDK wants one; without a key its header is left out of the requests.
            api_key="none" if key is None else key.reveal(),
            base_url=self._server.base_url,
            timeout=self._timeout,
            max_retries=self._max_retries,
            default_headers=self._headers,
            # Its own spans would tell of what nobody has judged.
            open_telemetry=False,
            # A server that redirects would get what was meant for another.
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
        """Return the headers that the SDK would send and that are not for this server."""
        absent = ("authorization", "x-api-key") if self._server.key is None else ()
        return {
            name: anthropic.Omit() for name in self._unless_given(*absent, *self._server.omitted)
        }

    async def _read(self, raw: Any) -> bytes:
        data: bytes = await raw.read()
        return data

    async def _events(self, raw: Any) -> Any:
        # Plain JSON: fields of compatible servers that the SDK's types do not have are in it.
        return await raw.parse(to=anthropic.AsyncStream[object])
