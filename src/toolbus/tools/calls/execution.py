"""One execution of foreign code, a tool's or an approver's, with its end as data."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from toolbus.bus.dispatch.deadlines import in_thread
from toolbus.bus.grace import CURRENT, GRACE
from toolbus.errors import DeadlineError, FreezeError
from toolbus.messages.immutable import escape_surrogates, replace_surrogates, replace_surrogates_in
from toolbus.messages.records import AudioPart, ImagePart, ResourcePart, TextPart, ToolResponse
from toolbus.tasks.shield import ContainedTask
from toolbus.tools import foreign_types

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Future

    from toolbus.messages.records import Part

logger = logging.getLogger("toolbus")

_PARTS = (TextPart, ImagePart, AudioPart, ResourcePart)
_LEAVES = 5
"""The number of errors of an exception group that a model reads."""


class Ending(Struct, frozen=True):
    """The end of foreign code: a returned *value*, or a raised *error*."""

    value: Any = None
    error: BaseException | None = None

    @property
    def response(self) -> ToolResponse:
        """The tool's response for the model."""
        if self.error is not None:
            return failure(_text_of(self.error), type(self.error).__name__)
        try:
            return to_response(self.value)
        except Exception as error:  # noqa: BLE001 - the value's own methods may raise anything
            return failure(f"the tool's result is not JSON: {_text_of(error)}", "invalid_result")


async def execute(
    what: str, function: Callable[[], Any], *, is_async: bool, seconds: float | None
) -> Ending:
    """Return the end of *function*, called *what* in the log; a sync one runs in a thread.

    Raises `DeadlineError` after *seconds* (None: never), and `CancelledError` only if the caller
    was cancelled. Either way the function is cancelled, and its later result is dropped. An async
    one has a task of its own, which can be left behind.
    """
    watch = partial(_watch, what)
    if not is_async:
        ending: Ending = await in_thread(_end_now, function, seconds=seconds, on_left=watch)
        if not isawaitable(ending.value):
            return ending
        # A decorator's sync wrapper around an async function.
        function = partial(_return, ending.value)
    running = ContainedTask(partial(end_of, function))
    try:
        if not await running.wait(seconds) and seconds is not None:
            raise DeadlineError(seconds)
    finally:
        if not running.ended.done():
            watch(running.task)
            running.cancel()
            # It may clean up, so that its own calls end before it does.
            grace = CURRENT.get()
            await running.wait(GRACE if grace is None else grace.seconds)
    return running.result()


async def end_of(function: Callable[[], Awaitable[Any]]) -> Ending:
    """Return the end of *function*; raise only this task's cancellation, and an interrupt."""
    try:
        return Ending(await function())
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return Ending(error=error)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - it is data from here on
        return Ending(error=error)


def failure(text: str, error_type: str) -> ToolResponse:
    """Return the response of a failed call; *text* may quote anything."""
    text = escape_surrogates(text)
    return ToolResponse.from_text(text, is_error=True, error_type=error_type)


def to_response(result: Any) -> ToolResponse:
    """Return *result* as a response: text, parts, or else structured JSON; None is empty.

    A path is text. In a list with parts each text becomes a part as well; a list of texts alone
    is JSON. Half a character becomes U+FFFD. Raises `FreezeError` or `TypeError` for other values.
    """
    match result:
        case ToolResponse():
            return result
        case None:
            return ToolResponse()
        case str():
            # Exactly the text, because no codec knows a subclass.
            return ToolResponse.from_text(replace_surrogates(str.__str__(result)))
        case TextPart() | ImagePart() | AudioPart() | ResourcePart():
            return ToolResponse(content=(result,))
        case list() | tuple() if _is_content(result):
            return ToolResponse(content=tuple(map(_part, result)))
    if foreign_types.is_path(type(result)):
        return ToolResponse.from_text(replace_surrogates(str(result)))
    structured = msgspec.to_builtins(result, str_keys=True, enc_hook=foreign_types.encode)
    try:
        return ToolResponse(structured=structured)
    except FreezeError:
        # Only now, because it walks through all of the value, and few values need it.
        return ToolResponse(structured=replace_surrogates_in(structured))


def _is_content(values: list[Any] | tuple[Any, ...]) -> bool:
    """Return whether *values* are parts and texts, with at least one part."""
    allowed = (str, *_PARTS)
    return all(isinstance(value, allowed) for value in values) and any(
        isinstance(value, _PARTS) for value in values
    )


def _part(value: Any) -> Part:
    return TextPart(text=replace_surrogates(value)) if isinstance(value, str) else value


def _watch(what: str, work: Future[Any] | asyncio.Future[Any]) -> None:
    """Log the end of the abandoned *work*."""

    def log(_: object) -> None:
        if not work.cancelled():
            work.exception()  # Unread, asyncio would report it as never retrieved.
            log_late(what)

    work.add_done_callback(log)


def log_late(what: str) -> None:
    """Log that *what* ended after its caller had stopped waiting."""
    logger.warning("%s ended too late; its result is dropped", what)


def _end_now(function: Callable[[], Any]) -> Ending:
    try:
        return Ending(function())
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - as above
        return Ending(error=error)


def _return(value: Any) -> Any:
    return value


def _text_of(error: BaseException) -> str:
    """Return the text of *error*, or its type if it has none; of a group, with its first leaves."""
    try:
        text = str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 - the report of a failure must not fail
        return type(error).__name__
    return f"{text}: {_leaves(error)}" if isinstance(error, BaseExceptionGroup) else text


def _leaves(group: BaseExceptionGroup[BaseException]) -> str:
    """Return types and texts of the errors in *group*, without the groups inside it."""
    leaves, waiting = [], [group]
    while waiting:
        error: BaseException = waiting.pop()
        if isinstance(error, BaseExceptionGroup):
            waiting.extend(reversed(error.exceptions))
        else:
            leaves.append(error)
    texts = [f"{type(error).__name__}: {_text_of(error)}" for error in leaves[:_LEAVES]]
    omitted = len(leaves) - len(texts)
    return "; ".join([*texts, f"and {omitted} more"] if omitted else texts)
