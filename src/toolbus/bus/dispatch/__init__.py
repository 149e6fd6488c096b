"""One dispatch: the context that handlers get, and its way through an ordered tuple of them."""

from toolbus.bus.dispatch.contexts import EventContext as EventContext
