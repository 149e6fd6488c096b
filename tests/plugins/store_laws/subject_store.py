"""A store that is put to the test: how it is opened, and what the laws append to it."""

from __future__ import annotations

import asyncio
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.bus.ledger.records import DispatchRecord, HandlerEntry
from toolbus.events.catalogue import Scope
from toolbus.messages.records import UserMessage
from toolbus.store.protocol import AppendRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from toolbus.store.protocol import Store

SECONDS = 120.0
"""After so many a law that still waits has failed: the store hangs."""


class StoreSubject(NamedTuple):
    """A place for one store, empty at first, which the fixture `stores` of a test class returns.

    *open* opens the store; called again while one is open, it opens the same place once more, by
    a connection of its own (or gives the same object, if the store ends with its process).

    The rest is for the classes that ask for it. *opener* names a function as "module:function",
    which other processes call with *address* to open the same place. *damage* changes a letter in
    the stored text of the message of a session by its number, behind the store's back; *age* lets
    a newer version have written the tables. *commits* returns how often a store has committed.
    """

    open: Callable[[], Store]
    opener: str = "toolbus.store.store_factory:open_store"
    address: str = ""
    damage: Callable[[str, int], None] | None = None
    age: Callable[[], None] | None = None
    commits: Callable[[Store], int] | None = None


def law(
    body: Callable[[Any, StoreSubject], Coroutine[Any, Any, None]],
) -> Callable[[Any, StoreSubject], None]:
    """Return *body*, which is async, as a test that any pytest runs."""

    @wraps(body)
    def run(self: Any, stores: StoreSubject) -> None:
        asyncio.run(asyncio.wait_for(body(self, stores), SECONDS))

    return run


def expect(actual: object, expected: object, what: str) -> None:
    """Raise `AssertionError` that says *what* is wrong unless the two are equal."""
    if actual != expected:
        raise AssertionError(f"{what}: expected {_short(expected)}, got {_short(actual)}")


def expect_true(holds: object, what: str) -> None:
    """Raise `AssertionError` that says *what* is wrong unless it *holds*."""
    if not holds:
        raise AssertionError(what)


async def expect_error(
    kinds: type[Exception] | tuple[type[Exception], ...],
    work: Coroutine[Any, Any, object],
    what: str,
) -> Exception:
    """Return the error of *work*; raises `AssertionError` if that is none of *kinds*."""
    try:
        result = await work
    except kinds as error:
        return error
    except Exception as error:
        raise AssertionError(f"{what}: wrong error {error!r}") from error
    raise AssertionError(f"{what}: no error, but {_short(result)}")


def user(name: str, text: str = "hello") -> UserMessage:
    """Return a message of the id *name*."""
    return UserMessage(id=name, content=text)


def record(number: int = 0, subject: str = "", call_id: str = "", **entry: Any) -> DispatchRecord:
    """Return a ledger record that has its *number* as its time."""
    made = HandlerEntry(name="h", priority=1, kind="guard", status="ran", **entry)
    return DispatchRecord(
        event="e",
        scope=Scope(agent_id="a", context={"user": "ü"}),
        subject=subject,
        call_id=call_id,
        started_ns=number,
        duration_ns=2,
        outcome="unchanged",
        original="abc",
        entries=(made,),
    )


def entry(name: str, *numbers: int, **fields: Any) -> AppendRequest:
    """Return an append of a message of the id *name*, with records of *numbers*."""
    records = tuple([record(number) for number in numbers])
    return AppendRequest(message=user(name), records=records, **fields)


def ids_of(messages: Iterable[Any]) -> list[str]:
    """Return the ids of *messages*."""
    return [message.id for message in messages]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 400 else f"{text[:400]}… ({len(text):,} letters)"
