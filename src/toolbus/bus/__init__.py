"""The event bus: ordered handlers, and the verbs that dispatch to them."""

from toolbus.bus.bus import EventBus as EventBus
from toolbus.bus.dispatch.contexts import EventContext as EventContext
