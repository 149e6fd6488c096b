"""Numbers of placeholders on which several processes agree."""

import asyncio

import pytest

from toolbus.components import State
from toolbus.errors import StoreError
from toolbus.redaction.numbering import agree, join
from toolbus.redaction.personal.session_placeholders import SessionPlaceholders
from toolbus.redaction.secrets.placeholders import evened
from toolbus.redaction.secrets.secret_registry import SecretRegistry
from toolbus.store.memory import MemoryStore


class Interrupting(MemoryStore):
    """A store in which somebody else writes right before the first of our writes."""

    theirs = b'{"numbers":{"mark":7}}'

    async def swap_state(self, session_id, name, old, new):
        if (theirs := self.theirs) is not None:
            self.theirs = None
            assert await super().swap_state(session_id, name, old, theirs)
        return await super().swap_state(session_id, name, old, new)


class Failing(MemoryStore):
    async def swap_state(self, *_):
        raise StoreError("here", "the disk is full")


async def numbered(store, registry, value="secret-value-1"):
    async def work():
        if isinstance(registry, SecretRegistry):
            return registry.placeholder(value, "mark")
        return registry.of("mark", value)

    return await agree(registry, work, State(store, "s", "numbers"))


@pytest.fixture(params=["secrets", "personal"])
def registry(request):
    return SecretRegistry() if request.param == "secrets" else SessionPlaceholders()


async def test_what_another_gave_meanwhile_is_not_given(registry):
    store = Interrupting()

    given = [await numbered(store, registry, f"secret-value-{at}") for at in (1, 2, 1)]

    kept = await State(store, "s", "numbers").read()
    assert [evened(name) for name in given] == ["[mark-8]", "[mark-9]", "[mark-8]"]
    assert kept["numbers"] == {"mark": 9}
    assert kept.get("suffix", "") == registry.suffix


async def test_processes_agree_on_the_suffix():
    store, first, second = MemoryStore(), SecretRegistry(), SecretRegistry()

    given = [await numbered(store, one, f"secret-{one.suffix}") for one in (first, second, first)]

    assert len({first.suffix, second.suffix}) == 1
    assert given[0] == given[2] == f"[mark-1-{first.suffix}]"
    assert given[1] == f"[mark-2-{first.suffix}]"


async def test_a_session_is_joined_once_before_any_number():
    store, first, second = MemoryStore(), SecretRegistry(), SecretRegistry()
    state = State(store, "s", "numbers")

    await join(first, state)
    await numbered(store, first)
    await join(second, state)
    await State(store, "s", "numbers").update(lambda _: None)
    await join(second, state)

    assert second.suffix == first.suffix
    assert second.numbers.highest == first.numbers.highest == {"mark": 1}
    assert await state.read() is None


async def test_a_failed_store_gives_no_number(registry):
    with pytest.raises(StoreError):
        await numbered(Failing(), registry)

    assert registry.numbers.highest == {}
    assert evened(await numbered(MemoryStore(), registry)) == "[mark-1]"


async def test_a_cancelled_agreement_is_undone(registry):
    reached = asyncio.Event()

    class Hanging(MemoryStore):
        async def swap_state(self, *_):
            reached.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(numbered(Hanging(), registry))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert registry.numbers.highest == {}


@pytest.mark.parametrize(
    "kept", [5, {"numbers": [1]}, {"numbers": {"mark": "7"}}, {"x": 1}, {"suffix": "[a-1]"}]
)
async def test_what_is_no_numbers_is_passed_over(registry, kept):
    store = MemoryStore()
    await State(store, "s", "numbers").update(lambda _: kept)

    assert evened(await numbered(store, registry)) == "[mark-1]"


async def test_without_a_place_it_counts_alone(registry):
    async def work():
        return registry.numbers.highest

    assert await agree(registry, work, None) == {}


async def test_work_is_done_once_more_however_fast_the_others_are(registry):
    class Busy(MemoryStore):
        """A store in which somebody else numbers before each of our writes."""

        taken = 0

        async def swap_state(self, session_id, name, old, new):
            if self.taken < 5:
                self.taken += 1
                theirs = b'{"numbers":{"mark":%d}}' % (10 * self.taken)
                assert await super().swap_state(session_id, name, old, theirs)
            return await super().swap_state(session_id, name, old, new)

    store, done = Busy(), []

    async def work():
        done.append("again")
        if isinstance(registry, SecretRegistry):
            return registry.placeholder("secret-value-1", "mark")
        return registry.of("mark", "secret-value-1")

    given = await agree(registry, work, State(store, "s", "numbers"))

    assert evened(given) == "[mark-51]"
    assert done == ["again", "again"]


def test_what_is_undone_is_not_found_any_more():
    registry = SecretRegistry()
    first = registry.placeholder("ghp_first-secret-of-all", "mark")
    before = dict(registry.numbers.highest)
    second = registry.placeholder("ghp_second-secret-of-all", "mark", "ghp_second\\-secret")

    registry.undo(before)

    assert len(registry) == 1
    assert registry.restored(f"{first} {second}") == f"ghp_first-secret-of-all {second}"
    assert [*filter(None, registry.find(b"ghp_second-secret-of-all"))] == []
