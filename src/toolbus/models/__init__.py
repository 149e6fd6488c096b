"""The models that an agent can ask."""

from toolbus.models.protocol import Model as Model
