"""Models by their names: `openai:NAME`, `openai-responses:NAME`, `anthropic:NAME`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from toolbus.errors import RegistrationError
from toolbus.settings.hints import hint

if TYPE_CHECKING:
    from toolbus.models.protocol import Model

PROVIDERS = ("anthropic", "openai", "openai-responses")
"""The part of a model's name before the colon."""


def model_named(name: str, *, base_url: str | None = None, key_env: str | None = None) -> Model:
    """Return the model *name*, PROVIDER:NAME; its key is the environment's.

    With a *base_url* the only key is the variable *key_env*.

    Raises `RegistrationError` for another name and without a key, `ImportError` without the extra.
    """
    provider, _, model = name.partition(":")
    if provider not in PROVIDERS or not model:
        reason = "expected PROVIDER:NAME, or an object like `toolbus.models.Model`"
        raise RegistrationError(f"model {name!r}", reason + hint(provider, PROVIDERS))
    # Each import needs its extra.
    if provider == "anthropic":
        from toolbus.models import AnthropicModel  # noqa: PLC0415

        return AnthropicModel(model, base_url=base_url, key_env=key_env)
    from toolbus.models import OpenAIModel  # noqa: PLC0415

    api: Literal["chat", "responses"] = "chat" if provider == "openai" else "responses"
    return OpenAIModel(model, api=api, base_url=base_url, key_env=key_env)
