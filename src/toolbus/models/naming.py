"""Models by their names: `openai:NAME`, `openai-responses:NAME`, `anthropic:NAME`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.errors import RegistrationError
from toolbus.settings.hints import hint

if TYPE_CHECKING:
    from toolbus.models.protocol import Model

PROVIDERS = ("anthropic", "openai", "openai-responses")
"""What may stand before the colon."""


def model_named(name: str) -> Model:
    """Return the model *name*, with its provider before a colon; its key is the environment's.

    Raises `RegistrationError` for another name and without a key, `ImportError` without the extra.
    """
    provider, _, model = name.partition(":")
    if provider not in PROVIDERS or not model:
        reason = "expected PROVIDER:NAME, or an object as `toolbus.models.Model` says"
        raise RegistrationError(f"model {name!r}", reason + hint(provider, PROVIDERS))
    # Each needs its extra.
    if provider == "anthropic":
        from toolbus.models.anthropic import AnthropicModel  # noqa: PLC0415

        return AnthropicModel(model)
    from toolbus.models.openai import OpenAIModel  # noqa: PLC0415

    return OpenAIModel(model, api="chat" if provider == "openai" else "responses")
