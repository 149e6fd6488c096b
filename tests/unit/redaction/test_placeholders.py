"""Placeholders: the same in each process, told from those of others, and read in texts."""

import asyncio
import re

import pytest

from toolbus.components import State
from toolbus.redaction.placeholders import (
    SaltMissingError,
    SessionPlaceholders,
    evened,
    kind_of,
    placeholders_in,
    restored,
    without_placeholders,
)
from toolbus.store.memory import MemoryStore

A, B, C = "[a-abcdefghijklmnop]", "[a-b2-bcdefghijklmnopq]", "[a-cdefghijklmnopqr]"


def placeholders(session="s", store=None, name="kept"):
    made = SessionPlaceholders(session)
    made.begin(State(store or MemoryStore(), session, name))
    return made


async def named(made, kind, value):
    async def name():
        return made.of(kind, value)

    return await made.salted(name)


def test_a_placeholder_is_a_kind_and_sixteen_letters():
    made = placeholders()
    names = {made.of("github-pat", f"a value {number}") for number in range(500)}

    assert len(names) == 500
    assert all(re.fullmatch(r"\[github-pat-[a-z][a-z2-7]{15}\]", name) for name in names)
    assert {kind_of(name) for name in names} == {"github-pat"}


def test_a_placeholder_is_of_its_key_session_kind_and_value():
    made = [placeholders(), placeholders("t"), placeholders(name="other")]

    names = [each.of("a", "a long value") for each in (*made, placeholders())]
    others = [made[0].of("b", "a long value"), made[0].of("a", "a long valu"), made[0].shared("a")]

    assert names[0] == names[3]
    assert len({*[name[-17:] for name in (*names, *others)]}) == 6


def test_fields_do_not_run_into_each_other():
    made = placeholders()

    assert made.of("ab", "c-a-long-value")[3:] != made.of("a", "bc-a-long-value")[2:]


def test_its_own_letters_are_told_from_others():
    made, other = placeholders(), placeholders("t")
    letters = made.of("a", "a long value")[3:-1]
    changed = [
        letters[:at] + ("a" if letters[at] != "a" else "b") + letters[at + 1 :] for at in range(16)
    ]

    assert made.is_own(letters)
    assert not other.is_own(letters)
    assert not any(map(made.is_own, changed))


def test_letters_that_are_no_text_are_values_as_well():
    assert placeholders().of("a", "a long value \udc80")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("phone", "+14155552671"),
        ("card", "4242424242424242"),
        ("postcode", "SW1A 1AA"),
        ("assigned-secret", "7391"),
        ("assigned-secret", "hunter"),
        ("mark", "1990-12-31"),
        ("mark", "415 555 2671"),
    ],
)
async def test_values_of_few_are_salted(kind, value):
    store = MemoryStore()
    first, second, elsewhere = placeholders(store=store), placeholders(store=store), placeholders()
    with pytest.raises(SaltMissingError):
        first.of(kind, value)

    names = [await named(each, kind, value) for each in (first, second, first, elsewhere)]

    assert names[0] == names[1] == names[2] == first.of(kind, value)
    assert names[3] != names[0]


@pytest.mark.parametrize("value", ["hunter2", "1234567890123", "jane@example.com"])
def test_values_of_many_need_no_salt(value):
    assert placeholders().of("mark", value)


async def test_processes_that_draw_at_once_agree():
    store = MemoryStore()
    await State(store, "s", "kept").update(lambda _: {"numbers": {"a": 1}})

    names = await asyncio.gather(*[named(placeholders(store=store), "pin", "1") for _ in range(8)])

    kept = await State(store, "s", "kept").read()
    assert len({*names}) == 1
    assert kept.keys() == {"numbers", "salt"}


@pytest.mark.parametrize("kept", [5, {"salt": 7}, {"salt": "abc"}, [1], {"salt": "[a-1]" * 8}])
async def test_what_is_no_salt_is_replaced(kept):
    store = MemoryStore()
    await State(store, "s", "kept").update(lambda _: kept)

    names = [await named(placeholders(store=store), "pin", "1") for _ in range(2)]

    assert names[0] == names[1]


async def test_without_a_place_a_salt_is_the_process_s():
    made = SessionPlaceholders("s")

    assert await named(made, "pin", "1") == made.of("pin", "1")


@pytest.mark.parametrize(
    ("text", "even"),
    [
        (f"key {B}, {A} {C} {A}", "key [a-b2-1], [a-1] [a-2] [a-1]"),
        ("key [github-pat-1-x7k2m5], [a-12-abcdef]", "key [github-pat-1], [a-1]"),
        ("[github-pat-1] [a-1-2abcde] [a-0-abcdef]", "[github-pat-1] [a-1-2abcde] [a-0-abcdef]"),
        ("[" * 9 + A[1:], "[" * 9 + "a-1]"),
        ("[a-abcdefghijklmno] [a-2bcdefghijklmnop] [a-abcdefghijklmn0p]", None),
    ],
)
def test_placeholders_are_numbered_in_their_order(text, even):
    assert evened(text) == (even or text)
    assert evened(evened(text)) == evened(text)


def test_placeholders_are_found():
    text = f"x {A} y [b-2] [c-3-abcdef] z"

    assert placeholders_in(text) == [A, "[c-3-abcdef]"]
    assert without_placeholders(text) == "x  y   z"
    assert restored(text, {A: "1"}.get) == "x 1 y [b-2] [c-3-abcdef] z"
