"""The models for agents."""

from typing import TYPE_CHECKING

from toolbus.models.protocol import Model as Model
from toolbus.settings.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolbus.models.replay import ReplayModel as ReplayModel
    from toolbus.models.scripted import ScriptedModel as ScriptedModel
    from toolbus.providers.anthropic import AnthropicModel as AnthropicModel
    from toolbus.providers.openai import OpenAIModel as OpenAIModel

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AnthropicModel": ".providers.anthropic",
        "OpenAIModel": ".providers.openai",
        "ReplayModel": "replay",
        "ScriptedModel": "scripted",
    },
)
