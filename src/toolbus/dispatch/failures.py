"""The wording of a handler's failure: for the log, for the model and for operators."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from toolbus.errors import DeadlineError, HandlerContractError

if TYPE_CHECKING:
    from toolbus.ledger import HandlerStatus

logger = logging.getLogger("toolbus")


class PredicateError(Exception):
    """A predicate raised; the error is its cause."""


def explain(error: Exception) -> tuple[HandlerStatus, str]:
    """Return the ledger's status of a handler's failure, and its wording without the error's text."""
    match error:
        case DeadlineError():
            return "timeout", str(error)
        case HandlerContractError():
            return "contract", error.reason
        case PredicateError():
            return "failed", "has a predicate that raised an error"
    return "failed", "raised an error"


def detail_of(error: Exception) -> str:
    """Return the type, text and place of *error*, for operators."""
    root = root_of(error)
    return f"{type(root).__name__}: {root}{_place(root)}"


def log_failure(
    event: str, handler: str, error: Exception, reason: str, *, silent: bool = False
) -> None:
    """Log that the handler failed; *silent* leaves out the error's text, for it may quote the value."""
    what = type(root_of(error)).__name__ + _place(root_of(error))
    logger.warning(
        "handler %r of %r %s (%s)",
        handler,
        event,
        reason,
        what,
        exc_info=None if silent else error,
        extra={"event": event, "handler": handler},
    )


def root_of(error: Exception) -> BaseException:
    """Return what a predicate raised, or *error* itself."""
    return error.__cause__ or error if isinstance(error, PredicateError) else error


def _place(error: BaseException) -> str:
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return "" if place is None else f" at {place.tb_frame.f_code.co_filename}:{place.tb_lineno}"
