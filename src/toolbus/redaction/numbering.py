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
    from collections.abc import Awaitable, Callable

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


class Joining(Protocol):
    """The placeholders of one session, which may have taken over what is kept of them."""

    numbers: dict[str, int]
    suffix: str
    lock: LoopLock
    joined: bool


async def agree(registry: Numbered, work: Callable[[], Awaitable[T]], state: State | None) -> T:
    """Return what *work* returns, once the numbers that it gave are the session's in *state*.

    If another process gave them meanwhile, or began with a suffix of its own, what *work* numbered
    is forgotten and it does it again, behind those. Raises what *work* or the store raises, and has
    given no number then.
    """
    async with registry.lock.here():
        aside: dict[str, int] = {}
        while True:
            before = dict(registry.numbers)
            try:
                result = await work()
                counts = _counts_since(registry.numbers, before)
                if state is None or all(
                    registry.numbers[kind] <= aside.get(kind, 0) for kind in counts
                ):
                    registry.numbers = _highest(registry.numbers, aside)
                    return result
                claim = _Claim(before, counts, registry.suffix)
                await state.update(claim)
            except BaseException:
                # What was written meanwhile is a number that nobody will have.
                registry.undo(before)
                raise
            if not claim.is_refused:
                return result
            registry.undo(before)
            registry.numbers, registry.suffix = _highest(before, claim.theirs), claim.suffix
            aside = claim.aside


async def join(registry: Joining, state: State | None) -> None:
    """Take over what is kept for the session in *state*, once; the first process begins it.

    So *registry* knows the suffix before it has given any number. Raises `StoreError`.
    """
    if registry.joined or state is None:
        return
    async with registry.lock.here():
        claim = _Claim(registry.numbers, {}, registry.suffix)
        await state.update(claim)
        registry.numbers = _highest(registry.numbers, claim.theirs)
        registry.suffix, registry.joined = claim.suffix, True


class _Claim:
    """Has the numbers after *before* be ours in what is kept for a session: *counts* of each kind.

    If somebody else has them, others are put *aside* for us: the work is done once more, and not
    as often as others are faster.
    """

    def __init__(self, before: Mapping[str, int], counts: Mapping[str, int], suffix: str) -> None:
        self._before, self._counts, self._suffix = before, counts, suffix
        self.theirs, self.aside = dict[str, int](), dict[str, int]()
        self.suffix, self.is_refused = suffix, False

    def __call__(self, stored: Any) -> dict[str, Any]:
        """Return what is to be kept in place of *stored*."""
        self.theirs, self.suffix = _numbers_in(stored), _agreed_suffix(stored, self._suffix)
        self.is_refused = self.suffix != self._suffix or any(
            self.theirs.get(kind, 0) > self._before.get(kind, 0) for kind in self._counts
        )
        behind = _highest(self._before, self.theirs)
        self.aside = {kind: behind.get(kind, 0) + count for kind, count in self._counts.items()}
        stored_anew = {"numbers": _highest(behind, self.aside)}
        return {**stored_anew, "suffix": self.suffix} if self.suffix else stored_anew


def _counts_since(numbers: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    """Return how many numbers of each kind there are since *before*."""
    return {
        kind: number - before.get(kind, 0)
        for kind, number in numbers.items()
        if number != before.get(kind, 0)
    }


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
