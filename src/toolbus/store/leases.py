"""Who may write a session: the lease that words it early, and the fence that decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toolbus.errors import SessionBusyError

if TYPE_CHECKING:
    from toolbus.store.protocol import Position

LEASE_SECONDS = 30.0
"""How long a lease lasts that nobody extends: so long a session of a stopped machine may rest."""

# An agent that is killed is known to have ended; one whose disk is full may not be able to say so.
_RUNNING = (
    "another agent runs in it, or ended without saying so; wait for its end, or "
    f"{LEASE_SECONDS:.0f} seconds, or give another `session_id`"
)
_TAKEN = (
    "another agent took it over, and nothing was written; "
    "run again to go on with what it left in the store"
)


class Lease(NamedTuple):
    """Who writes a session: *holder*, in *process*, until *until_ns* at least, under *epoch*."""

    epoch: int = 0
    holder: str = ""
    process: str = ""
    until_ns: int = 0

    def keeps_out(self, holder: str, now_ns: int) -> bool:
        """Tell whether somebody else than *holder* has it."""
        return self.holder != holder and self.until_ns > now_ns


def running(session_id: str) -> SessionBusyError:
    """Return the error of who may not open a session."""
    return SessionBusyError(session_id, _RUNNING)


def check_position(session_id: str, expected: Position | None, actual: Position) -> None:
    """Raise `SessionBusyError` if the session is not where its writer expects it to be."""
    if expected is not None and expected != actual:
        raise SessionBusyError(session_id, _TAKEN, actual.epoch, actual.length)
