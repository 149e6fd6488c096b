"""The models for agents."""

from typing import TYPE_CHECKING

from toolbus.models.protocol import Model as Model
from toolbus.settings.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolbus.models.scripted import ScriptedModel as ScriptedModel
    from toolbus.providers.anthropic import AnthropicModel as AnthropicModel
    from toolbus.providers.openai import OpenAIModel as OpenAIModel
    from toolbus.providers.replay import ReplayModel as ReplayModel

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AnthropicModel": ".providers.anthropic",
        "OpenAIModel": ".providers.openai",
        "ReplayModel": ".providers.replay",
        "ScriptedModel": "scripted",
    },
)
