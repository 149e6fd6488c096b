"""The wording of a handler's failure: for the log, for the model and for operators."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from toolbus.errors import DeadlineError, DispatchDepthError, HandlerContractError, ToolbusError
from toolbus.events.verdicts import in_words

if TYPE_CHECKING:
    from logging import Logger

    from toolbus.bus.ledger.records import HandlerStatus

FAILED = "handler %r of %r %s (%s)"
"""The log text of a failure, with places for its arguments."""

answerable: ContextVar[bool] = ContextVar("toolbus_answerable", default=False)
"""Whether a handler that is cancelled, in a dispatch that is not, counts as failed."""


class PredicateError(Exception):
    """A predicate raised; its error is the cause."""


def explain(event: str, handler: str, error: BaseException) -> tuple[HandlerStatus, str]:
    """Return the ledger's status of a failure, and its wording without the error's text."""
    match error:
        case DeadlineError():
            return "timeout", str(error)
        # An error of another handler, whose dispatch this one started, is an ordinary error.
        case HandlerContractError() if (error.event, error.handler) == (event, handler):
            return "contract", error.reason
        case PredicateError():
            return "failed", "has a predicate that raised an error"
        case Exception():
            return "failed", "raised an error"
    return "failed", f"was ended by {type(error).__name__}"


def passes(error: BaseException) -> bool:
    """Return whether *error* passes on to the caller, whatever the handler's policy."""
    if isinstance(error, Exception):
        return isinstance(error, DispatchDepthError)
    return not (answerable.get() and _is_stray(error))


def _is_stray(error: BaseException) -> bool:
    """Return whether *error* is a cancellation of the handler alone."""
    from asyncio import CancelledError, current_task  # noqa: PLC0415 - few failures need it

    task = current_task()
    return isinstance(error, CancelledError) and task is not None and not task.cancelling()


def detail_of(error: BaseException) -> str:
    """Return the type, text and place of *error*, for operators."""
    root = root_of(error)
    return in_words(root) + _place(root)


def log_failure(
    event: str, handler: str, error: BaseException, reason: str, *, silent: bool = False
) -> None:
    """Log that a handler failed; *silent* leaves out the error's text.

    That is for handlers that remove data from the value: the error may quote it.
    """
    root = root_of(error)
    what = type(root).__name__ + _place(root)
    shown = None if silent else root
    log(FAILED, handler, event, reason, what, exc_info=shown)


def log_denial(event: str, handler: str, reason: str, detail: str) -> None:
    """Log the operators' detail of a denial."""
    extra = {"event": event, "handler": handler}
    text = "handler %r of %r denied: %s; detail: %s"
    _logger().info(text, handler, event, reason, detail, extra=extra)


def log(
    text: str, handler: str, event: str, *values: object, exc_info: BaseException | None = None
) -> None:
    """Log *text*, which has places for the handler, the event and *values*."""
    extra = {"event": event, "handler": handler}
    _logger().warning(text, handler, event, *values, exc_info=exc_info, extra=extra)


def log_tap(event: str, error: Exception) -> None:
    """Log that a tap failed at the record of a dispatch of *event*."""
    extra = {"event": event}
    _logger().error("a tap of the bus failed at %r", event, exc_info=error, extra=extra)


def _logger() -> Logger:
    from logging import getLogger  # noqa: PLC0415 - few programs have a failure

    return getLogger("toolbus")


def root_of(error: BaseException) -> BaseException:
    """Return the error of a failed predicate, or *error* itself."""
    return error.__cause__ or error if isinstance(error, PredicateError) else error


def _place(error: BaseException) -> str:
    """Return " at file:line" of the raise of *error*, "" for an error of toolbus."""
    place = error.__traceback__
    if place is None or isinstance(error, ToolbusError):
        return ""
    while place.tb_next is not None:
        place = place.tb_next
    return f" at {place.tb_frame.f_code.co_filename}:{place.tb_lineno}"
