"""The state of a component for a session: one JSON value, with compare-and-set in the store.

    @guard(TOOL_CALL_BEFORE)
    async def limit(self, ctx):
        calls = await self.state(ctx.scope).update(lambda count: (count or 0) + 1)
        return Deny("too many calls") if calls > 100 else None

It resumes with the session, and parallel calls and processes share it. The component itself keeps
no state, because it may serve many sessions at once. Both verbs are async, since a store may be
remote: a handler that needs them is `async def`. A call waits for its guards.
"""

from __future__ import annotations

import inspect
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from toolbus.bus.dispatch.callables import is_async
from toolbus.errors import FreezeError, RegistrationError
from toolbus.messages.codec import decoder, encode
from toolbus.messages.immutable import check_text, freeze
from toolbus.tasks.loops import LoopLock

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.events.catalogue import Scope
    from toolbus.store.memory import MemoryStore
    from toolbus.store.protocol import Store

MAX_BYTES, MAX_NAME = 1_000_000, 200
"""The maximum size of one state as JSON, and the maximum characters of its name."""

_decode = decoder(object)


class State:
    """The JSON value *name* of the session *session_id* in *store*.

    It is None at first. Its values are frozen: `toolbus.messages.thaw` returns a mutable copy.
    """

    __slots__ = ("_lock", "_name", "_session_id", "_store")

    def __init__(
        self, store: Store, session_id: str, name: str, lock: LoopLock | None = None
    ) -> None:
        self._store, self._session_id, self._name = store, session_id, name
        self._lock = LoopLock() if lock is None else lock

    async def read(self) -> Any:
        """Return the value, or None; raises `StoreError`."""
        return _value_of(await self._store.read_state(self._session_id, self._name))

    async def update(self, change: Callable[[Any], Any]) -> Any:
        """Replace the value by the result of *change*, and return it; None deletes it.

        *change* is called again after a concurrent update, so it must be without side effects. If
        it raises, nothing has changed. If cancelled, the change may have been written.

        Raises:
            FreezeError: the result would not survive a round trip, or is too large.
            RegistrationError: *change* is async.
            StoreError: the store failed, and nothing has changed.
        """
        if not callable(change) or is_async(change):
            raise self._refusal(change)
        # The comparison is enough, but of a hundred tasks that read at once one would win: so the
        # tasks of a host take turns.
        async with self._lock.current():
            while True:
                body = await self._store.read_state(self._session_id, self._name)
                value = self._frozen(change(_value_of(body)))
                new_body = None if value is None else self._encoded(value)
                place = self._session_id, self._name
                if new_body == body or await self._store.swap_state(*place, body, new_body):
                    return value

    def digest_key(self) -> bytes | None:
        """Return a key, of this state alone, for digests of values that it must not contain.

        All processes of a user have the same; None, with a warning, if it cannot be created.
        """
        from hashlib import blake2b  # noqa: PLC0415 - slow to import, needed for hidden values only

        from toolbus.settings.user_key import value_key  # noqa: PLC0415 - as above

        key = value_key(durable=self._store.durable)
        if key is None:
            return None
        return blake2b(encode([self._session_id, self._name]), key=key).digest()

    def _frozen(self, value: Any) -> Any:
        if inspect.iscoroutine(value):
            value.close()
            raise self._refusal(value)
        try:
            return freeze(value)
        except FreezeError as error:
            raise FreezeError(f"state {self._name!r}: {error.reason}", error.path) from None

    def _encoded(self, value: Any) -> bytes:
        body = encode(value)
        if len(body) > MAX_BYTES:
            reason = f"{len(body):,} bytes exceed the limit of {MAX_BYTES:,}"
            way_out = "keep large data in a file, and its path here"
            raise FreezeError(f"state {self._name!r}: {reason}; {way_out}")
        return body

    def _refusal(self, change: object) -> RegistrationError:
        reason = "expected a sync function that gets the old value and returns the new one"
        return RegistrationError(f"state {self._name!r}", f"{reason}, not {change!r}")


def _value_of(body: bytes | None) -> Any:
    return None if body is None else freeze(_decode(body))


class StateSource:
    """The states of a host, with a lock for each that is in use."""

    def __init__(self) -> None:
        self.memory, _ = temporary_place("")
        self._locks: WeakValueDictionary[tuple[str, str], LoopLock] = WeakValueDictionary()

    def get(
        self, place: tuple[Store, str], name: str, scope: Scope | None, *, shared: bool
    ) -> State:
        """Return the state *name* of a host; see `Host.state`.

        *place* has its store and its own session, "" without one. Raises `RegistrationError`.
        """
        _check_name(name)
        store, session_id = place
        if (replay := replay_place.get()) is not None:
            store, session_id = replay[0], session_id or replay[1]
        if scope is not None:
            session_id = (scope.root_session_id if shared else "") or scope.session_id
        elif not session_id:
            reason = "this host serves many sessions; give a scope: `state(…, ctx.scope)`"
            raise RegistrationError(f"state {name!r}", reason)
        lock = self._locks.setdefault((session_id, name), LoopLock())
        return State(store, session_id, name, lock)


replay_place: ContextVar[tuple[Store, str] | None] = ContextVar("toolbus_replay", default=None)
"""The place of states during a replay: another store, and its session."""


def temporary_place(session_id: str) -> tuple[MemoryStore, str]:
    """Return an empty, temporary place for the states of *session_id*."""
    from toolbus.store.memory import MemoryStore  # noqa: PLC0415 - not for a program without hosts

    return MemoryStore(), session_id


def _check_name(name: object) -> None:
    try:
        check_text(name, "$")
    except FreezeError as error:
        raise RegistrationError(f"state {name!r}", error.reason) from None
    text = str(name)
    if not 0 < len(text) <= MAX_NAME:
        reason = f"expected a name of 1 to {MAX_NAME} characters, not of {len(text)}"
        raise RegistrationError(f"state {text[:MAX_NAME]!r}", reason)
