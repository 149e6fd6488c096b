"""Laws that take long: what hypothesis draws, beside a model, and messages of 100 MB."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from store_laws.subject_store import (
    StoreSubject,
    expect,
    expect_true,
    ids_of,
    law,
    record,
    user,
)
from toolbus.errors import SessionBusyError
from toolbus.store.protocol import AppendRequest, Original, Position
from toolbus.testing.strategies import messages

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from toolbus.messages.records import Message

_LARGE = 100 * 2**20
_COUNT, _SIZE = 2_000, 20_000
_SESSIONS = st.sampled_from(["s", "t", "nul \0", "' OR 1=1"])
_NAMES = st.sampled_from(["n", "", "%"])
_BODIES = st.sampled_from([None, b"1", b"1.0", b'{"a": "\\u0000"}'])
_TEXTS = st.text(max_size=20)
_HOLDERS = st.sampled_from(["a", "b"])


class LongStoreLaws:
    """For every store; needs hypothesis."""

    def test_it_does_what_the_model_does(self, stores: StoreSubject) -> None:
        """Drawn steps, in a store and in plain lists: appends, openings, swaps, forgetting."""
        rounds = iter(range(10**9))
        store = stores.open()

        class Machine(_StoreMachine):
            def __init__(self) -> None:
                # All runs share the place, so each has ids of its own.
                super().__init__(store, f"{next(rounds)}:")

        few = settings(
            max_examples=10,
            stateful_step_count=30,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        run_state_machine_as_test(Machine, settings=few)
        asyncio.run(store.close())

    def test_what_is_drawn_comes_back(self, stores: StoreSubject) -> None:
        """Messages of every kind, as hypothesis draws them."""
        store, numbers = stores.open(), iter(range(10**9))

        @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.lists(messages(), max_size=6))
        def check(drawn: list[Message]) -> None:
            session_id = f"s{next(numbers)}"

            async def append_all() -> None:
                for message in drawn:
                    await store.append(session_id, AppendRequest(message=message))
                expect(await store.read(session_id), tuple(drawn), "messages that were drawn")

            asyncio.run(append_all())

        check()
        asyncio.run(store.close())

    @law
    async def test_a_message_of_100_mb_is_kept(self, stores: StoreSubject) -> None:
        """Between small ones, letter by letter."""
        store = stores.open()
        text = "0123456789abcdé " * (_LARGE // 17)
        sent = (user("before"), user("large", text), user("after"))
        for message in sent:
            await store.append("s", AppendRequest(message=message))

        expect_true(await store.read("s") == sent, "a message of 100 MB came back as another")
        await store.close()

    @law
    async def test_reading_loads_a_part_at_a_time(self, stores: StoreSubject) -> None:
        """A session of 40 MB takes a fraction of that, and its end costs no beginning."""
        store = stores.open()
        for start in range(0, _COUNT, 100):
            names = [f"m{number}" for number in range(start, start + 100)]
            await asyncio.gather(
                *[
                    store.append(
                        "s", AppendRequest(message=user(f"{name}-{start}", name * (_SIZE // 4)))
                    )
                    for name in names
                ]
            )
        with store.reader() as reader:
            row = reader.session("s")
            key = row.key if row else 0
            tracemalloc.start()
            count = sum(1 for _ in reader.messages(key))
            end = ids_of(islice(reader.messages(key, _COUNT - 1), 9))
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()

        expect((count, len(end)), (_COUNT, 1), "messages that were gone through, and the last")
        if store.durable:
            limit = _COUNT * _SIZE // 3
            expect_true(peak < limit, f"{peak:,} bytes at once for a session read by parts")
        await store.close()


class _SessionModel:
    """What a session holds, in plain lists."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.records: list[int] = []
        self.originals: dict[str, bytes] = {}
        self.states: dict[str, bytes] = {}


class _StoreMachine(RuleBasedStateMachine):
    """Does the same to *store* and to a model; the ids of sessions begin with *prefix*."""

    def __init__(self, store: Any, prefix: str) -> None:
        super().__init__()
        self._store, self._prefix = store, prefix
        self._loop = asyncio.new_event_loop()
        self._model: defaultdict[str, _SessionModel] = defaultdict(_SessionModel)
        self._known: dict[str, None] = {}
        self._epochs: dict[str, int] = {}
        self._positions: dict[str, list[Position]] = defaultdict(list)
        self._number = 0

    def teardown(self) -> None:
        """Close the loop of this run."""
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(work)

    @rule(session=_SESSIONS, text=_TEXTS, records=st.integers(0, 2), pair=st.booleans())
    def append(self, session: str, text: str, records: int, *, pair: bool) -> None:
        """Append a message, or two, and records."""
        self._number += 1
        message = user(f"m{self._number}", text)
        before = (user(f"b{self._number}"),) if pair else ()
        numbers = [self._number] * records
        made = tuple([record(number, subject=text) for number in numbers])
        stored = AppendRequest(message=message, before=before, records=made)
        self._do(self._store.append(self._prefix + session, stored))
        model = self._model[session]
        model.messages += stored.messages
        model.records += numbers
        self._known.setdefault(session)

    @rule(session=_SESSIONS, digest=st.sampled_from("abc"))
    def keep(self, session: str, digest: str) -> None:
        """Append an original, and nothing else."""
        original = Original(digest=digest, body=b"[1]")
        self._do(self._store.append(self._prefix + session, AppendRequest(originals=(original,))))
        self._model[session].originals[digest] = b"[1]"
        self._known.setdefault(session)

    @rule(session=_SESSIONS, name=_NAMES, old=_BODIES, new=_BODIES)
    def swap(self, session: str, name: str, old: bytes | None, new: bytes | None) -> None:
        """Swap a state, which works if the model has the old one."""
        states = self._model[session].states
        fits = states.get(name) == old
        swapped = self._do(self._store.swap_state(self._prefix + session, name, old, new))
        expect(swapped, fits, "whether a state was swapped")
        if not fits:
            return
        states.pop(name, None)
        if new is not None:
            states[name] = new
            self._known.setdefault(session)

    @rule(session=_SESSIONS, holder=_HOLDERS)
    def open_session(self, session: str, holder: str) -> None:
        """Be the writer, without a lease."""
        position = self._do(self._store.open_session(self._prefix + session, holder, 0))
        expect(position.length, len(self._model[session].messages), "the length that it tells")
        expect_true(position.epoch > self._epochs.get(session, -1), "an epoch that does not grow")
        self._epochs[session] = position.epoch
        self._positions[session].append(position)

    @rule(session=_SESSIONS, index=st.integers(0, 5))
    def append_at(self, session: str, index: int) -> None:
        """Append where one of those that opened it believes it to stand."""
        positions = self._positions[session]
        if not positions:
            return
        position = positions[index % len(positions)]
        model = self._model[session]
        fits = position == Position(self._epochs[session], len(model.messages))
        self._number += 1
        stored = AppendRequest(message=user(f"m{self._number}"), at=position)
        try:
            self._do(self._store.append(self._prefix + session, stored))
        except SessionBusyError:
            expect_true(not fits, "an append at the right position was refused")
            return
        expect_true(fits, f"an append at {position} got in")
        model.messages += stored.messages
        self._known.setdefault(session)

    @rule(session=_SESSIONS, states=st.booleans())
    def forget(self, session: str, *, states: bool) -> None:
        """Forget originals, or states."""
        model = self._model[session]
        forget = self._store.forget_states if states else self._store.forget_originals
        values = model.states if states else model.originals
        expect(self._do(forget(self._prefix + session)), len(values), "how many were forgotten")
        values.clear()

    @invariant()
    def all_is_equal(self) -> None:
        """Compare all sessions, as the store and as a reader has them."""
        with self._store.reader() as reader:
            for session, model in self._model.items():
                session_id = self._prefix + session
                row = reader.session(session_id)
                expect(row is not None, session in self._known, "whether there is a session")
                if row is None:
                    continue
                counts = (row.messages, row.records, row.has_originals)
                expected = (len(model.messages), len(model.records), bool(model.originals))
                expect(counts, expected, "the summary of a session")
                messages = tuple([each.message for each in reader.messages(row.key)])
                expect(messages, tuple(model.messages), "the messages, by a reader")
                expect(self._do(self._store.read(session_id)), messages, "the messages")
                records = self._do(self._store.records(session_id))
                expect([each.started_ns for each in records], model.records, "the records")
                states = {state.name: state.body for state in reader.states(row.key)}
                expect(states, model.states, "the states")
                originals = {each.digest: each.body for each in reader.originals(row.key)}
                expect(originals, model.originals, "the originals")
        infos = [info.id for info in self._do(self._store.sessions())]
        own_ids = [name for name in infos if name.startswith(self._prefix)]
        expect(own_ids, [self._prefix + each for each in self._known], "the order of sessions")
