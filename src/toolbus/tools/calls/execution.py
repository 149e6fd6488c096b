"""One execution of foreign code, a tool's or an approver's: whatever it does is data here."""

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
"""A model reads as many errors of an exception group; a task group may fail a thousand times."""


class Ending(Struct, frozen=True):
    """How foreign code ended by itself: with a *value*, or with an *error* that it raised."""

    value: Any = None
    error: BaseException | None = None

    @property
    def response(self) -> ToolResponse:
        """What a tool's ending says to the model."""
        if self.error is not None:
            return failure(_text_of(self.error), type(self.error).__name__)
        try:
            return to_response(self.value)
        except Exception as error:  # noqa: BLE001 - it may come from the value's own methods
            return failure(f"the tool's result is no JSON: {_text_of(error)}", "invalid_result")


async def execute(
    what: str, function: Callable[[], Any], *, is_async: bool, seconds: float | None
) -> Ending:
    """Return how *function*, called *what* in the log, ends; a sync one runs in a thread.

    Raises `DeadlineError` after *seconds* (None: never), and `CancelledError` only if the caller
    was cancelled. Either way the function is told to stop, and what it still brings is dropped.
    An async one has a task of its own, which can be left behind.
    """
    watch = partial(_watch, what)
    if not is_async:
        ending: Ending = await in_thread(_end_now, function, seconds=seconds, on_left=watch)
        if not isawaitable(ending.value):
            return ending
        # A decorator's sync wrapper around an async function.
        function = partial(_same, ending.value)
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
    """Return how *function* ends; only a cancellation of this task and an interrupt are raised."""
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
    """Return the response of a call that failed; *text* may quote anything."""
    text = escape_surrogates(text)
    return ToolResponse.from_text(text, is_error=True, error_type=error_type)


def to_response(result: Any) -> ToolResponse:
    """Return *result* as a response: text, parts, or else structured JSON; None is empty.

    A path is text. In a list with a part in it each text is a part as well; a list of texts alone
    is JSON. Half a character becomes U+FFFD. Raises `FreezeError` or `TypeError` for other values.
    """
    match result:
        case ToolResponse():
            return result
        case None:
            return ToolResponse()
        case str():
            # A subclass's text, exactly: nobody could encode the subclass.
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
        # Mended only now, since most need it not, and it walks through all of it.
        return ToolResponse(structured=replace_surrogates_in(structured))


def _is_content(values: list[Any] | tuple[Any, ...]) -> bool:
    """Tell whether *values* are parts and texts, with a part among them at least."""
    allowed = (str, *_PARTS)
    return all(isinstance(value, allowed) for value in values) and any(
        isinstance(value, _PARTS) for value in values
    )


def _part(value: Any) -> Part:
    return TextPart(text=replace_surrogates(value)) if isinstance(value, str) else value


def _watch(what: str, work: Future[Any] | asyncio.Future[Any]) -> None:
    """Log the end of *work*, for which nobody waits any more."""

    def log(_: object) -> None:
        if not work.cancelled():
            work.exception()  # Unasked, asyncio would report it as never retrieved.
            log_late(what)

    work.add_done_callback(log)


def log_late(what: str) -> None:
    """Log that *what* brought a result for which nobody waits any more."""
    logger.warning("%s ended too late; its result is dropped", what)


def _end_now(function: Callable[[], Any]) -> Ending:
    try:
        return Ending(function())
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - as above
        return Ending(error=error)


def _same(value: Any) -> Any:
    return value


def _text_of(error: BaseException) -> str:
    """Return the text of *error*, or its type if it has none; a group's names its first leaves."""
    try:
        text = str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 - telling of a failure must not fail
        return type(error).__name__
    return f"{text}: {_leaves(error)}" if isinstance(error, BaseExceptionGroup) else text


def _leaves(group: BaseExceptionGroup[BaseException]) -> str:
    """Return types and texts of the errors in *group* that are no groups themselves."""
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
