"""A ledger record for stores under test."""

from toolbus import Scope
from toolbus.bus.ledger import DispatchRecord


def record(name):
    """Return an unchanged dispatch about the message *name*."""
    return DispatchRecord(
        event="message:append:before",
        scope=Scope(session_id="s"),
        subject=name,
        started_ns=1,
        duration_ns=2,
        outcome="unchanged",
        original="",
    )
