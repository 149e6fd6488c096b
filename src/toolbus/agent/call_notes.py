"""What the ledger has of a model call that no dispatch tells: retries, and what was shown early."""

from __future__ import annotations

from time import time_ns
from typing import TYPE_CHECKING, Any

from toolbus.bus.ledger.records import DispatchRecord
from toolbus.events.catalogue import MODEL_CALL_AFTER, MODEL_CALL_DELTA, MODEL_CALL_ERROR

if TYPE_CHECKING:
    from toolbus.agent.release import Release
    from toolbus.events.catalogue import Scope
    from toolbus.messages.records import AssistantMessage


def answer_notes(
    scope: Scope, message: AssistantMessage, release: Release | None
) -> list[DispatchRecord]:
    """Return what there is to say of the answer *message*, before it is judged as a whole."""
    retries = message.metadata.get("retries")
    records = []
    if type(retries) is int and retries > 0:
        records.append(_record(MODEL_CALL_AFTER.name, scope, message.id, reason=_again(retries)))
    return [*records, *release_notes(scope, release, message.id)]


def failure_notes(scope: Scope, attempts: int, release: Release | None) -> list[DispatchRecord]:
    """Return what there is to say of a model that failed after so many *attempts*."""
    records = []
    if attempts > 1:
        reason = _again(attempts - 1)
        records.append(_record(MODEL_CALL_ERROR.name, scope, outcome="raised", reason=reason))
    return [*records, *release_notes(scope, release)]


def release_notes(
    scope: Scope, release: Release | None, message_id: str = ""
) -> list[DispatchRecord]:
    """Return what handlers let through of an answer before it was whole, if anything."""
    entries = () if release is None else release.increments.entries()
    if not entries:
        return []
    reason = "shown before the answer was whole"
    return [_record(MODEL_CALL_DELTA.name, scope, message_id, reason=reason, entries=entries)]


def _again(retries: int) -> str:
    return f"the server was asked again {retries} time{'s'[: retries > 1]}"


def _record(event: str, scope: Scope, subject: str = "", **facts: Any) -> DispatchRecord:
    # No value was dispatched, so there is no digest of one.
    whole = {"outcome": "observed", "duration_ns": 0, "original": "", **facts}
    return DispatchRecord(event=event, scope=scope, subject=subject, started_ns=time_ns(), **whole)
