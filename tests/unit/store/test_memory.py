"""What is the memory store's alone, and of an append before any store has it."""

from store_laws.subject_store import record
from toolbus.store.memory import MemoryStore
from toolbus.store.protocol import AppendRequest


def test_records_without_values_are_kept_as_they_are():
    plain = record(before="d1")

    assert AppendRequest(records=(plain,)).records[0] is plain


async def test_a_discarded_session_is_gone():
    store = MemoryStore()
    await store.swap_state("s", "n", None, b"1")

    store.discard_session("s")
    store.discard_session("unknown")

    assert await store.sessions() == ()
