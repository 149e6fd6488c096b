"""The bus: who handles which event, in which order, and the verbs that dispatch."""

from toolbus.bus.bus import EventBus as EventBus
from toolbus.bus.dispatch.contexts import EventContext as EventContext
