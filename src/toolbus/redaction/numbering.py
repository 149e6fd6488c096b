"""The numbers of placeholders, on which all processes of a session agree before one is shown.

If two processes, one after the other or at once, gave one placeholder to two values, a vault would
put the one where the other is meant; and if a value had another one in each, nobody would know it
again. What is kept for a session is the highest number of each kind, the suffix of all, if they
have one, and of the latest values the number beside a digest with a key: no value, and nothing by
which one could be guessed without the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from toolbus.redaction.secrets.placeholders import is_suffix
from toolbus.redaction.value_numbers import ValueNumber, known_in, stored_form

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolbus.components.state import State
    from toolbus.redaction.value_numbers import ValueNumbers
    from toolbus.tasks.loops import LoopLock

T = TypeVar("T")


class Numbered(Protocol):
    """The placeholders of one session, with the *numbers* of their values.

    *suffix* is at the end of each, and empty if they have none.
    """

    numbers: ValueNumbers
    suffix: str
    lock: LoopLock

    def undo(self, highest: Mapping[str, int]) -> None:
        """Forget all that has a higher number than *highest* say."""


class Joining(Protocol):
    """The placeholders of one session, which may have taken over what is kept of them."""

    numbers: ValueNumbers
    suffix: str
    lock: LoopLock
    joined: bool


async def agree(registry: Numbered, work: Callable[[], Awaitable[T]], state: State | None) -> T:
    """Return what *work* returns, once the numbers that it gave are the session's in *state*.

    If another process gave them meanwhile, knew one of the values, or began with a suffix of its
    own, what *work* numbered is forgotten, and it does it again with what they agreed on. Raises
    what *work* or the store raises, and has given no number then.
    """
    async with registry.lock.here():
        numbers = registry.numbers
        numbers.begin(None if state is None else state.digest_key)
        while True:
            before = dict(numbers.highest)
            try:
                result = await work()
                if state is None or not numbers.fresh:
                    return result
                claim = _Claim(numbers, registry.suffix, before)
                await state.update(claim)
            except BaseException:
                # What was written meanwhile is the number of that value alone.
                registry.undo(before)
                raise
            if claim.is_refused:
                registry.undo(before)
            claim.settle(registry)
            if not claim.is_refused:
                return result


async def join(registry: Joining, state: State | None) -> None:
    """Take over what is kept for the session in *state*, once; the first process begins it.

    So *registry* knows the suffix before it has given any number. Raises `StoreError`.
    """
    if registry.joined or state is None:
        return
    async with registry.lock.here():
        registry.numbers.begin(state.digest_key)
        claim = _Claim(registry.numbers, registry.suffix, registry.numbers.highest)
        await state.update(claim)
        claim.settle(registry)
        registry.joined = True


class _Claim:
    """Has the fresh of *numbers* be ours in what is kept for a session; *before* are the highest.

    If somebody else has them, others are assigned to our values, and if somebody else knew those,
    the numbers that they have: the work is done once more, and not as often as others are faster.
    """

    def __init__(self, numbers: ValueNumbers, suffix: str, before: Mapping[str, int]) -> None:
        self._fresh, self._aliases = numbers.fresh, numbers.aliases
        self._lasts, self._suffix, self._before = numbers.lasts, suffix, before
        self._highest, self._known = dict[str, int](), dict[str, ValueNumber]()
        self._agreed, self.is_refused = suffix, False

    def __call__(self, stored: Any) -> dict[str, Any]:
        """Return what is to be kept in place of *stored*."""
        theirs = numbers_in(stored)
        self._agreed = _agreed_suffix(stored, self._suffix)
        highest = _highest(self._before, theirs)
        values = stored.get("values") if isinstance(stored, Mapping) else None
        known = known_in(values, theirs)
        assigned = dict[str, ValueNumber]()
        for digest, fresh in self._fresh.items():
            number = known.get(digest)
            if number is None:
                highest[fresh.kind] = highest.get(fresh.kind, 0) + 1
                number = ValueNumber(fresh.kind, highest[fresh.kind])
            assigned[digest] = number
        self.is_refused = self._agreed != self._suffix or assigned != self._fresh
        aliases = {alias: assigned[digest] for alias, digest in self._aliases.items()}
        self._highest, self._known = highest, {**aliases, **known, **assigned}
        to_store = self._known if self._lasts else known
        return {
            "numbers": highest,
            **({"suffix": self._agreed} if self._agreed else {}),
            **({"values": stored_form(to_store)} if to_store else {}),
        }

    def settle(self, registry: Numbered | Joining) -> None:
        """Let *registry* have what was agreed on."""
        registry.numbers.highest, registry.suffix = self._highest, self._agreed
        registry.numbers.learn(self._known)


def _highest(some: Mapping[str, int], others: Mapping[str, int]) -> dict[str, int]:
    kinds = {**some, **others}
    return {kind: max(some.get(kind, 0), others.get(kind, 0)) for kind in kinds}


def numbers_in(stored: Any) -> dict[str, int]:
    """Return the numbers in what is kept, as far as they are some."""
    numbers = stored.get("numbers") if isinstance(stored, Mapping) else None
    items = numbers.items() if isinstance(numbers, Mapping) else ()
    return {kind: number for kind, number in items if type(number) is int and number > 0}


def _agreed_suffix(stored: Any, suffix: str) -> str:
    """Return the suffix in what is kept, or else *suffix*, which is empty for those without."""
    theirs = stored.get("suffix") if isinstance(stored, Mapping) else None
    return str(theirs) if suffix and is_suffix(theirs) else suffix
