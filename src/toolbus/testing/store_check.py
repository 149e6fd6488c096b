"""`check_store`: the check of a store against the `Store` protocol."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from toolbus.bus.ledger.records import DispatchRecord
from toolbus.errors import ClosedError, LawBroken, SessionBusyError
from toolbus.events.catalogue import Scope
from toolbus.messages.records import (
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
)
from toolbus.store.protocol import AppendRequest, Original, Position
from toolbus.testing.value_text import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine

    from toolbus.store.protocol import Store

    _Law = Callable[[Callable[[], Store]], Coroutine[Any, Any, None]]

SECONDS = 60.0
"""The time limit of one law."""

_CALL = ToolCall(id="c", name="read", arguments={"n": 1.5, "deep": [{"a": None}]})
_RESPONSE = ToolResponse(structured=[1, "x"])
_ROLES = (
    SystemMessage(id="s", content="be brief"),
    UserMessage(id="u", content="héllo"),
    AssistantMessage(id="a", content="I look.", tool_calls=(_CALL,)),
    ToolMessage(id="t", tool_call_id="c", tool_name="read", tool_response=_RESPONSE),
)
_TEXTS = (
    "",
    "nul \0 in it",
    "'; DROP TABLE %s ? $1 _% \\u0000 \"x",
    "line\r\nbreak \x1b[2J \x85 \u2028 \N{PILE OF POO} \N{RIGHT-TO-LEFT OVERRIDE} \U0010ffff",
    "long " * 4_000,
)


def check_store(open_store: Callable[[str], Store], *, without: Collection[str] = ()) -> None:
    """Check a store against the `Store` protocol; raise `LawBroken` with all broken laws.

    A durable store is also reopened, and opened twice at the same time. This function starts its
    own event loops, so call it from a synchronous test. Raises `ValueError` for names of unknown
    laws.

    Args:
        open_store: opens the store of a given name, which is empty at first.
        without: names of laws that the store may break.

    >>> check_store(lambda name: MemoryStore())
    """
    if unknown := sorted(set(without) - LAWS.keys()):
        msg = f"unknown law {unknown[0]!r}; known: {', '.join(LAWS)}"
        raise ValueError(msg)
    problems = {
        name: problem
        for name, (law, _) in LAWS.items()
        if name not in without
        if (problem := asyncio.run(_problem(law, partial(open_store, name))))
    }
    if problems:
        lines = [f"  {name}: {LAWS[name][1]}\n    {text}" for name, text in problems.items()]
        report = "\n".join([f"the store breaks {len(problems)} of {len(LAWS)} laws:", *lines])
        raise LawBroken(", ".join(problems), "the store", lines[0].strip(), {}, report)


async def _problem(law: _Law, open_store: Callable[[], Store]) -> str:
    """Return how a store breaks *law*, else ""."""
    opened: list[Store] = []

    def open_here() -> Store:
        opened.append(open_store())
        return opened[-1]

    try:
        async with asyncio.timeout(SECONDS):
            await law(open_here)
    except AssertionError as error:
        return str(error)
    except TimeoutError:
        return f"the store takes longer than {SECONDS:g} s"
    except Exception as error:  # noqa: BLE001 - an error of the store breaks the law
        return f"the store raises {error!r}"
    finally:
        for store in opened:
            with suppress(Exception):
                await store.close()
    return ""


async def _round_trip(open_store: Callable[[], Store]) -> None:
    store = open_store()
    for message in _ROLES:
        for session_id in ("one", "two"):
            await store.append(
                session_id, AppendRequest(message=message, records=(_record(message.id),))
            )
    records = tuple([_record(message.id) for message in _ROLES])
    for session_id in ("one", "two"):
        _expect(await store.read(session_id), _ROLES, "the messages of a session")
        _expect(await store.records(session_id), records, "the records of a session")
    nothing = [await store.read("x"), await store.records("x"), await store.read_state("x", "n")]
    _expect(nothing, [(), (), None], "the content of an unknown session")
    listed = [(info.id, info.messages) for info in await store.sessions()]
    _expect(listed, [("one", 4), ("two", 4)], "the sessions, the oldest first")


async def _order(open_store: Callable[[], Store]) -> None:
    store = open_store()
    pairs = [AppendRequest(before=(_user(f"q{n}"),), message=_user(f"a{n}")) for n in range(100)]
    tasks = [asyncio.ensure_future(store.append("s", request)) for request in pairs]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    await asyncio.wait(tasks)
    expected = [name for n in range(100) for name in (f"q{n}", f"a{n}")]
    _expect(await _ids(store), expected, "the messages of appends, every second one cancelled")


async def _fence(open_store: Callable[[], Store]) -> None:
    store = open_store()
    first = await store.open_session("s", "a", 0)
    second = await store.open_session("s", "b", 0)
    _expect(first.epoch < second.epoch, expected=True, what="a later opening has a higher epoch")
    late = AppendRequest(message=_user("late"), records=(_record("late"),), at=first)
    await _expect_error(SessionBusyError, store.append("s", late), "a late append")
    written = (await store.read("s"), await store.records("s"), await store.sessions())
    _expect(written, ((), (), ()), "the messages, records and sessions after a refused append")
    appends = [store.append("s", _entry(f"m{n}", second)) for n in range(20)]
    results = await asyncio.gather(*appends, return_exceptions=True)
    _expect(results.count(None), 1, "the number of 20 appends at one position that succeed")


async def _lease(open_store: Callable[[], Store]) -> None:
    store = open_store()
    openings = [store.open_session("s", f"holder-{n}", 60) for n in range(20)]
    results = await asyncio.gather(*openings, return_exceptions=True)
    holders = [n for n, result in enumerate(results) if isinstance(result, Position)]
    _expect(len(holders), 1, "the number of 20 holders that open a session")
    await store.extend_lease("s", "stranger", 0)
    await _expect_error(SessionBusyError, store.open_session("s", "b", 60), "a second opening")
    await store.extend_lease("s", f"holder-{holders[0]}", 0)
    await store.open_session("s", "b", 60)


async def _states(open_store: Callable[[], Store]) -> None:
    store = open_store()
    swaps = [
        await store.swap_state("s", "n", b"1", b"2"),
        await store.swap_state("s", "n", None, b'{"b":1, "a":[]}'),
        await store.swap_state("s", "n", b'{"b": 1, "a": []}', b"2"),
    ]
    _expect(swaps, [False, True, False], "the answers of three swaps")
    _expect(await store.read_state("s", "n"), b'{"b":1, "a":[]}', "the bytes of the state")
    await asyncio.gather(*[_count_up(store) for _ in range(20)])
    _expect(await store.read_state("s", "count"), b"20", "a number that 20 tasks count up")
    _expect(await store.forget_states("s"), 2, "the number of states that are forgotten")
    _expect(await store.read_state("s", "n"), None, "a forgotten state")


async def _texts(open_store: Callable[[], Store]) -> None:
    store = open_store()
    for text in _TEXTS:
        message = UserMessage(id=text, content=text)
        await store.append(text, AppendRequest(message=message, records=(_record(text),)))
        await store.swap_state(text, text, None, b"1")
        _expect(await store.read(text), (message,), "the messages of a session with such an id")
        _expect(await store.records(text), (_record(text),), "its records")
        _expect(await store.read_state(text, text), b"1", "its state")
    _expect([info.id for info in await store.sessions()], [*_TEXTS], "the ids of the sessions")


async def _forgetting(open_store: Callable[[], Store]) -> None:
    store = open_store()
    original = Original(digest="d", body=b"1")
    for session_id, moment in (("old", 1_000), ("busy", 1_000), ("new", 2_000)):
        request = AppendRequest(message=_user("m"), originals=(original,), written_ns=moment)
        await store.append(session_id, request)
    await store.open_session("busy", "a", 60)
    _expect(await store.forget_sessions(2_000), ("old",), "the deleted sessions")
    remaining = [info.id for info in await store.sessions()]
    _expect(remaining, ["busy", "new"], "the remaining sessions: one in use, and a newer one")
    _expect(await store.read("old"), (), "the messages of a deleted session")
    _expect(await store.forget_originals("new"), 1, "the number of originals that are forgotten")
    _expect(await store.originals("busy"), (original,), "the originals of another session")
    _expect(await _ids(store, "new"), ["m"], "the messages of a session without its originals")


async def _reader(open_store: Callable[[], Store]) -> None:
    store = open_store()
    for n in range(1, 6):
        await store.append("s", _entry(f"m{n}"))
    with store.reader() as reader:
        row = reader.session("s")
        if row is None:
            raise AssertionError("the reader does not find a session of the store")
        ids = [each.id for each in reader.messages(row.key, 3)]
        _expect(ids, ["m4", "m5"], "the messages after number 3")
        before = reader.changes
        await store.append("s", _entry("m6"))
        _expect(reader.changes != before, expected=True, what="`changes` differs after an append")


async def _closing(open_store: Callable[[], Store]) -> None:
    store = open_store()
    await store.append("s", _entry("m"))
    await store.close()
    await store.close()
    await _expect_error(ClosedError, store.append("s", _entry("n")), "`append` after `close`")
    await _expect_error(ClosedError, store.read("s"), "`read` after `close`")
    await _expect_error(ClosedError, store.read_state("s", "n"), "`read_state` after `close`")


async def _durability(open_store: Callable[[], Store]) -> None:
    store = open_store()
    if not store.durable:
        return
    first = await store.open_session("s", "a", 0)
    tasks = [asyncio.ensure_future(store.append("s", _entry(f"m{n}"))) for n in range(50)]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(*tasks)
    store, other = open_store(), open_store()
    _expect(await _ids(store), [f"m{n}" for n in range(50)], "appends begun before `close`")
    second = await other.open_session("s", "b", 0)
    _expect(
        first.epoch < second.epoch,
        expected=True,
        what="a reopened store continues its epochs",
    )
    await other.append("s", _entry("other", second))
    _expect((await _ids(store))[50:], ["other"], "an append through another connection")
    late = store.append("s", _entry("late", first))
    await _expect_error(SessionBusyError, late, "an append after another connection's opening")


LAWS: dict[str, tuple[_Law, str]] = {
    "round-trip": (_round_trip, "messages and records come back equal and in order"),
    "order": (_order, "concurrent appends keep the order of their start, each pair together"),
    "fence": (_fence, "an append is refused unless the session is at its position"),
    "leases": (_lease, "a lease excludes other holders until it is released"),
    "states": (_states, "a state is swapped only if its bytes equal the expected ones"),
    "texts": (_texts, "every text is stored unchanged, as content and as an id"),
    "forgetting": (_forgetting, "only the requested data is deleted"),
    "reader": (_reader, "a reader yields the current messages after any number"),
    "closing": (_closing, "a closed store raises `ClosedError`"),
    "durability": (
        _durability,
        "a durable store that is reopened, or opened twice, has all appends",
    ),
}
"""The laws for stores by name, each with its promise."""


async def _count_up(store: Store) -> None:
    while True:
        old = await store.read_state("s", "count")
        if await store.swap_state("s", "count", old, b"%d" % (int(old or b"0") + 1)):
            return


def _expect(actual: object, expected: object, what: str) -> None:
    if actual != expected:
        raise AssertionError(f"{what}: expected {describe(expected)}, got {describe(actual)}")


async def _expect_error(kind: type[Exception], work: Coroutine[Any, Any, Any], what: str) -> None:
    with suppress(kind):
        raise AssertionError(f"{what}: expected {kind.__name__}, got {describe(await work)}")


def _user(name: str) -> UserMessage:
    return UserMessage(id=name, content="hello")


def _entry(name: str, position: Position | None = None) -> AppendRequest:
    return AppendRequest(message=_user(name), at=position)


def _record(subject: str) -> DispatchRecord:
    return DispatchRecord(
        event="e",
        scope=Scope(agent_id="a"),
        subject=subject,
        started_ns=1,
        duration_ns=2,
        outcome="unchanged",
        original="abc",
    )


async def _ids(store: Store, session_id: str = "s") -> list[str]:
    return [message.id for message in await store.read(session_id)]
