"""Models of OpenAI, and of every server that speaks as it does."""

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
    msg = needs_extra("to ask models of OpenAI needs its library", "openai")
    raise ImportError(msg, name="openai") from error

_WIRES = {"chat": CHAT, "responses": RESPONSES}


class OpenAIModel(RemoteModel):
    """The model *model* of OpenAI, or of a compatible server at *base_url*.

    Raises `RegistrationError` for what could never work. Nothing prints the key.

    Args:
        model: the provider's name of it; handlers may write another one into a request.
        api: `chat`, the chat completions that all compatible servers know, or `responses`.
        base_url: else `OPENAI_BASE_URL`, else OpenAI's own address.
        key_env: the variable with the key; `OPENAI_API_KEY` unless a *base_url* is given. A server
            at a *base_url* gets no key that is not named here or as *key_file*.
        key_file: a file with the key that only its owner may read.
        headers: sent with each request; their values are taken for secrets.
        timeout: seconds without a byte from the server.
        max_retries: how often a lost connection, a timeout, 429 and 5xx are tried again, by the
            SDK, with the pause that the server asks for: a minute at most, else the call fails.
        structured_output: how the server is told what an `output_type` is: `native`, by the API's
            own parameter, or `text`, in words, for servers that refuse that parameter.

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
            raise RegistrationError(f"api {api!r}", "there are 'chat' and 'responses'")
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
            # The SDK wants one; without a key its header is left out of the requests.
            api_key="none" if key is None else key.reveal(),
            admin_api_key="",
            base_url=self._server.base_url,
            timeout=self._timeout,
            max_retries=self._max_retries,
            default_headers=self._headers,
            # A server that redirects would get what was meant for another.
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
        """Return the headers that the SDK would send and that are not for this server."""
        absent = ("authorization",) if self._server.key is None else ()
        names = self._unless_given(*absent, *self._server.omitted)
        return dict.fromkeys(names, openai.Omit())

    async def _read(self, raw: Any) -> bytes:
        data: bytes = raw.content
        return data

    async def _events(self, raw: Any) -> Any:
        # Plain JSON: fields of compatible servers that the SDK's types do not have are in it.
        return raw.parse(to=openai.AsyncStream[object])
