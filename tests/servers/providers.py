"""Models that are asked at a fake provider, and what the providers' own types say of requests."""

import json
from contextlib import asynccontextmanager
from functools import cache

from pydantic import TypeAdapter
from tests.servers.fake_provider import WIRES, FakeProvider

from toolbus.models import AnthropicModel, OpenAIModel

CHAT, RESPONSES, MESSAGES = WIRES


def model_for(path, server, **options):
    """Return a model that speaks the wire of *path*, asked at *server*."""
    options = {"max_retries": 0, **options}
    if path == MESSAGES:
        return AnthropicModel("m", base_url=server.url, **options)
    api = "chat" if path == CHAT else "responses"
    return OpenAIModel("m", api=api, base_url=f"{server.url}/v1", **options)


@asynccontextmanager
async def provider(path, *answers, chunk=7, **options):
    """Run a provider that gives *answers*, and a model that is asked there."""
    async with (
        FakeProvider(answers, chunk=chunk) as server,
        model_for(path, server, **options) as model,
    ):
        yield server, model


@cache
def request_types():
    """Return what the SDKs say of the bodies of requests."""
    from anthropic.types.message_create_params import MessageCreateParamsNonStreaming as Messages
    from openai.types.chat.completion_create_params import (
        CompletionCreateParamsNonStreaming as Chat,
    )
    from openai.types.responses.response_create_params import (
        ResponseCreateParamsNonStreaming as Responses,
    )

    kinds = {CHAT: Chat, RESPONSES: Responses, MESSAGES: Messages}
    return {path: TypeAdapter(kind) for path, kind in kinds.items()}


def check_request(seen):
    """Fail unless the provider's types accept the request *seen*."""
    body = {name: value for name, value in seen.body.items() if name != "stream"}
    for message in body.get("messages", ()):
        message.pop("reasoning_content", None)  # Not OpenAI's.
    kind = request_types()[seen.path]
    taken = json.loads(kind.dump_json(kind.validate_python(body)))
    assert taken.keys() == body.keys()
