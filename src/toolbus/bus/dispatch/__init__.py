"""One dispatch: its contexts, and the loop over the ordered handlers."""

from toolbus.bus.dispatch.contexts import EventContext as EventContext
