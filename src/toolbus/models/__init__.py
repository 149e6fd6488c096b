"""The models that an agent can ask."""

from typing import TYPE_CHECKING

from toolbus.models.protocol import Model as Model
from toolbus.settings.lazy_names import lazily

if TYPE_CHECKING:
    from toolbus.models.anthropic import AnthropicModel as AnthropicModel
    from toolbus.models.openai import OpenAIModel as OpenAIModel
    from toolbus.models.replay import ReplayModel as ReplayModel
    from toolbus.models.scripted import ScriptedModel as ScriptedModel

__getattr__, __dir__ = lazily(
    __name__,
    {
        "AnthropicModel": "anthropic",
        "OpenAIModel": "openai",
        "ReplayModel": "replay",
        "ScriptedModel": "scripted",
    },
)
