"""Records of what handlers did, how they are made, and who is told of them."""

from toolbus.bus.ledger.records import DispatchRecord as DispatchRecord
from toolbus.bus.ledger.records import HandlerEntry as HandlerEntry
