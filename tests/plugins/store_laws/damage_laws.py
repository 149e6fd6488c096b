"""Damage that is noticed: a changed letter, and tables that a newer version made."""

from __future__ import annotations

from store_laws.subject_store import StoreSubject, entry, expect, expect_true, law
from toolbus.errors import DecodeError, StoreError


class DamagedStoreLaws:
    """For stores that can be changed behind their back; the subject has `damage` and `age`."""

    @law
    async def test_a_changed_character_is_named(self, stores: StoreSubject) -> None:
        """Reading the session fails, by the number of the message; a reader gives the others."""
        store = stores.open()
        for name in ("m1", "m2", "m3"):
            await store.append("s", entry(name))
        await store.append("t", entry("m"))
        await store.close()
        if stores.damage is None:
            raise AssertionError("the subject has no `damage`; leave out DamagedStoreLaws")
        stores.damage("s", 2)

        store = stores.open()
        error = await _failure(store.read("s"))
        expect_true("message 2 of session 's'" in str(error), f"the error names it: {error}")
        expect(len(await store.read("t")), 1, "the messages of another session")
        with store.reader() as reader:
            row = reader.session("s")
            rows = list(reader.messages(row.key if row else 0))
        expect([each.message is None for each in rows], [False, True, False], "what is unreadable")
        expect_true("is damaged" in rows[1].damage, f"its damage: {rows[1].damage!r}")
        await store.append("s", entry("m4"))
        await store.close()

    @law
    async def test_a_newer_version_is_refused(self, stores: StoreSubject) -> None:
        """When it is opened, with the way out; and it is left as it is."""
        store = stores.open()
        await store.append("s", entry("m"))
        await store.close()
        if stores.age is None:
            raise AssertionError("the subject has no `age`; leave out DamagedStoreLaws")
        stores.age()
        try:
            stores.open()
        except StoreError as error:
            expect_true("update toolbus" in str(error), f"the error tells the way out: {error}")
        else:
            raise AssertionError("a store of a newer version was opened")


async def _failure(work: object) -> Exception:
    try:
        await work  # type: ignore[misc]  # any verb of a store
    except (DecodeError, StoreError) as error:
        return error
    raise AssertionError("a damaged session was read")
