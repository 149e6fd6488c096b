"""The ledger: records of dispatches, their creation, and the taps that receive them."""

from toolbus.bus.ledger.records import DispatchRecord as DispatchRecord
from toolbus.bus.ledger.records import HandlerEntry as HandlerEntry
