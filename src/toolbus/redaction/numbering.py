"""The numbers of placeholders, on which all processes of a session agree before one is shown.

If two processes, one after the other or at once, gave one placeholder to two values, a vault would
put the one where the other is meant. What is kept for a session is the highest number of each kind
and the suffix of all, if they have one: no value, and nothing that is made of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from toolbus.redaction.secrets.placeholders import is_suffix

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.components.state import State
    from toolbus.tasks.loops import LoopLock

T = TypeVar("T")


class Numbered(Protocol):
    """The placeholders of one session; *numbers* has the highest of each kind.

    *suffix* is at the end of each, and empty if they have none.
    """

    numbers: dict[str, int]
    suffix: str
    lock: LoopLock

    def undo(self, numbers: Mapping[str, int]) -> None:
        """Forget all that has a higher number than *numbers* say."""


async def agree(registry: Numbered, work: Callable[[], T], state: State | None) -> T:
    """Return what *work* returns, once the numbers that it gave are the session's in *state*.

    If another process gave them meanwhile, or began with a suffix of its own, what *work* numbered
    is forgotten and it does it again, behind those. Raises what *work* or the store raises, and has
    given no number then.
    """
    async with registry.lock.here():
        before = dict(registry.numbers)
        try:
            result = work()
            if state is None or registry.numbers == before:
                return result

            def claim(stored: Any) -> dict[str, Any]:
                nonlocal before, result
                theirs, suffix = _numbers_in(stored), _agreed_suffix(stored, registry.suffix)
                if suffix != registry.suffix or _is_claimed(registry.numbers, before, theirs):
                    registry.undo(before)
                    before = _highest(before, theirs)
                    registry.numbers, registry.suffix = dict(before), suffix
                    result = work()
                numbers = _highest(theirs, registry.numbers)
                return {"numbers": numbers, **({"suffix": suffix} if suffix else {})}

            await state.update(claim)
        except BaseException:
            # What was written meanwhile is a number that nobody will have.
            registry.undo(before)
            raise
        return result


def _is_claimed(
    numbers: Mapping[str, int], before: Mapping[str, int], theirs: Mapping[str, int]
) -> bool:
    """Tell whether one of the numbers that were given since *before* is one of *theirs*."""
    return any(
        theirs.get(kind, 0) > before.get(kind, 0)
        for kind, number in numbers.items()
        if number != before.get(kind, 0)
    )


def _highest(some: Mapping[str, int], others: Mapping[str, int]) -> dict[str, int]:
    kinds = {**some, **others}
    return {kind: max(some.get(kind, 0), others.get(kind, 0)) for kind in kinds}


def _numbers_in(stored: Any) -> dict[str, int]:
    """Return the numbers in what is kept, as far as they are some."""
    numbers = stored.get("numbers") if isinstance(stored, Mapping) else None
    items = numbers.items() if isinstance(numbers, Mapping) else ()
    return {kind: number for kind, number in items if type(number) is int and number > 0}


def _agreed_suffix(stored: Any, suffix: str) -> str:
    """Return the suffix in what is kept, or else *suffix*, which is empty for those without."""
    theirs = stored.get("suffix") if isinstance(stored, Mapping) else None
    return str(theirs) if suffix and is_suffix(theirs) else suffix
